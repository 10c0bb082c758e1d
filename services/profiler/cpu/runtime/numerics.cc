// Directed rounding and the functions that the device approximates. Compiled with -frounding-math.
#include <fenv.h>
#include <math.h>

#include "types.h"

namespace {

int mode_of(u32 rounding) { return rounding == RZ ? FE_TOWARDZERO : rounding == RM ? FE_DOWNWARD : FE_UPWARD; }

template <class R>
__attribute__((noinline)) R operate(char operation, R a, R b, R c) {
  switch (operation) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return a / b;
    case 'f': return fma(a, b, c);
    default: return sqrt(a);
  }
}

}  // namespace

extern "C" {

float rt_rounded_f32(char operation, u32 rounding, float a, float b, float c) {
  fesetround(mode_of(rounding));
  volatile float x = a, y = b, z = c;
  volatile float r = operation == 'f' ? fmaf(x, y, z) : operate<float>(operation, x, y, z);
  fesetround(FE_TONEAREST);
  return r;
}

// Beside arithmetic: 'n' narrows to float; 'i', 'u' convert the 64-bit integer in the bits of `a` to double, 'I', 'U'
// to float.
double rt_rounded_f64(char operation, u32 rounding, double a, double b, double c) {
  fesetround(mode_of(rounding));
  volatile double x = a, y = b, z = c;
  volatile double r;
  u64 u = bits<u64>(a);
  volatile u64 integer = u;
  switch (operation) {
    case 'n': { volatile float f = (float)x; r = f; break; }
    case 'i': r = (double)(i64)integer; break;
    case 'u': r = (double)integer; break;
    case 'I': { volatile float f = (float)(i64)integer; r = f; break; }
    case 'U': { volatile float f = (float)integer; r = f; break; }
    default: r = operate<double>(operation, x, y, z);
  }
  fesetround(FE_TONEAREST);
  return r;
}

float rt_approx_f32(char function, float x) {
  switch (function) {
    case 'e': return exp2f(x);
    case 'l': return log2f(x);
    case 's': return sinf(x);
    case 'c': return cosf(x);
    default: return tanhf(x);
  }
}
}
