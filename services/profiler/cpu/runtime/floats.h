// Floating-point arithmetic with PTX's rounding, flushing and saturation.
#pragma once
#include "types.h"

extern "C" {
// Out of line: they change the rounding mode for the one operation. `operation` is one of "+-*/fsr".
double rt_rounded_f64(char operation, u32 rounding, double a, double b, double c);
float rt_rounded_f32(char operation, u32 rounding, float a, float b, float c);
float rt_approx_f32(char function, float x);
}

template <u32 F> OP float flush(float x) {
  if constexpr ((F & FTZ) != 0) return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
  return x;
}
template <u32 F> OP double flush(double x) { return x; }

// A NaN saturates to +0, as the ISA says.
template <u32 F, class R> OP R saturate(R x) {
  if constexpr ((F & SAT) != 0) return x > 0 ? (x < 1 ? x : (R)1) : (R)0;
  return x;
}
template <u32 F, class R> OP R finish(R x) { return saturate<F>(flush<F>(x)); }

// The device gives one NaN; the host's would carry an operand's payload, which may be the poison of unwritten memory.
OP float canonical(float x) { return x == x ? x : bits<float>(0x7fffffffu); }
OP double canonical(double x) { return x == x ? x : bits<double>(0x7ff8000000000000ull); }

// Sum rounded to odd in double: rounding it once more to a half is correct, where rounding twice would not be.
OP double sum_to_odd(double a, double b) {
  double s = a + b;
  if (!(__builtin_fabs(s) < __builtin_inf())) return s;
  double bb = s - a;
  double error = (a - (s - bb)) + (b - bb);
  u64 u = bits<u64>(s);
  if (error != 0 && !(u & 1)) u += ((error > 0) == (s > 0)) ? 1 : -1;
  return bits<double>(u);
}

OP u16 bf16_from_odd(double x) {
  if (x != x) return 0x7fff;
  // To float, again rounded to odd.
  float f = (float)x;
  if (__builtin_fabsf(f) < __builtin_inff() && (double)f != x) {
    u32 u = bits<u32>(f);
    if (__builtin_fabs((double)f) > __builtin_fabs(x)) u -= 1;
    f = bits<float>(u | 1);
  }
  return bf16_from_f32(f);
}

template <class T> OP u16 half_fma(u16 a, u16 b, u16 c) {
  double r = sum_to_odd((double)value<T>(a) * (double)value<T>(b), (double)value<T>(c));
  if constexpr (__is_same(T, f16)) return f16_from_f64(r);
  else return bf16_from_odd(r);
}

template <class T, u32 F> OP u16 half_finish(u16 x) {
  if constexpr ((F & FTZ) != 0 && __is_same(T, f16))
    if (!(x & 0x7c00)) x &= 0x8000;
  if constexpr ((F & SAT) != 0) {
    float v = value<T>(x);
    x = v > 0 ? (v < 1 ? x : from_value<T>(1.0f)) : (u16)0;
  }
  if constexpr ((F & RELU) != 0)
    if (x & 0x8000 && value<T>(x) == value<T>(x)) x = 0;
  return x;
}
template <class T, u32 F> OP u16 half_flush(u16 x) {
  if constexpr ((F & FTZ) != 0 && __is_same(T, f16)) return x & 0x7c00 ? x : x & 0x8000;
  return x;
}

// Applies a two-operand function of one half to both halves of a pair.
#define PAIRWISE(CALL)                                              \
  typedef typename T::half H;                                       \
  u16 lo, hi;                                                       \
  { typedef H E; constexpr int s = 0; lo = (u16)(CALL); }           \
  { typedef H E; constexpr int s = 16; hi = (u16)(CALL); }          \
  return (u32)lo | (u32)hi << 16;

template <char O, class T, u32 F> OP B<T> arithmetic(B<T> a, B<T> b) {
  if constexpr (is_half<T>) {
    float x = value<T>(half_flush<T, F>(a)), y = value<T>(half_flush<T, F>(b));
    float r = O == '+' ? x + y : O == '-' ? x - y : x * y;
    return half_finish<T, F>(from_value<T>(r));
  } else {
    a = flush<F>(a), b = flush<F>(b);
    B<T> r;
    if constexpr ((F & ROUNDING) == 0) r = O == '+' ? a + b : O == '-' ? a - b : O == '*' ? a * b : a / b;
    else if constexpr (sizeof(a) == 4) r = rt_rounded_f32(O, F & ROUNDING, a, b, 0);
    else r = rt_rounded_f64(O, F & ROUNDING, a, b, 0);
    return finish<F>(canonical(r));
  }
}

// fma.rm.f32 and its like are inside of expf: exact in double with the error term, no change of the rounding mode.
template <u32 R> OP float fma_directed(float a, float b, float c) {
  double p = (double)a * (double)b, d = c, s = p + d;
  if (!(__builtin_fabs(s) < __builtin_inf()) || s == 0) return rt_rounded_f32('f', R, a, b, c);
  double bb = s - p, error = (p - (s - bb)) + (d - bb);
  float f = (float)s;
  float magnitude = __builtin_fabsf(f);
  if (!(magnitude < __builtin_inff()) || magnitude < 0x1p-125f) return rt_rounded_f32('f', R, a, b, c);
  bool above = (double)f > s || ((double)f == s && error < 0);  // f exceeds the exact sum
  bool below = (double)f < s || ((double)f == s && error > 0);
  u32 u = bits<u32>(f);
  bool down = R == RM || (R == RZ && f > 0), up = R == RP || (R == RZ && f < 0);
  if (down && above) u += f > 0 ? -1 : 1;
  if (up && below) u += f > 0 ? 1 : -1;
  return bits<float>(u);
}

template <class T, u32 F> OP B<T> op_fma(B<T> a, B<T> b, B<T> c) {
  if constexpr (is_pair<T>) {
    PAIRWISE((op_fma<E, F>((u16)(a >> s), (u16)(b >> s), (u16)(c >> s))))
  } else if constexpr (is_half<T>) {
    return half_finish<T, F>(half_fma<T>(half_flush<T, F>(a), half_flush<T, F>(b), half_flush<T, F>(c)));
  } else if constexpr (sizeof(a) == 4) {
    a = flush<F>(a), b = flush<F>(b), c = flush<F>(c);
    if constexpr ((F & ROUNDING) == 0) return finish<F>(canonical(__builtin_fmaf(a, b, c)));
    else return finish<F>(canonical(fma_directed<F & ROUNDING>(a, b, c)));
  } else {
    if constexpr ((F & ROUNDING) == 0) return canonical(__builtin_fma(a, b, c));
    else return canonical(rt_rounded_f64('f', F & ROUNDING, a, b, c));
  }
}

// Minimum and maximum: -0 is less than +0, a NaN loses unless NAN_ is asked for.
template <bool MAX, u32 F, class R> OP R real_extremum(R a, R b) {
  a = flush<F>(a), b = flush<F>(b);
  if (a != a || b != b) {
    if ((F & NAN_) != 0 || (a != a && b != b)) return canonical(a + b);
    return a != a ? b : a;
  }
  if (a == b) return MAX == (bool)__builtin_signbit(a) ? b : a;
  return (a < b) == MAX ? b : a;
}
template <bool MAX, class T, u32 F> OP u16 half_extremum(u16 a, u16 b) {
  a = half_flush<T, F>(a), b = half_flush<T, F>(b);
  float x = value<T>(a), y = value<T>(b);
  if (x != x || y != y) {
    if ((F & NAN_) != 0 || (x != x && y != y)) return 0x7fff;
    return x != x ? b : a;
  }
  if (x == y) return MAX == (bool)(a >> 15) ? b : a;
  return (x < y) == MAX ? b : a;
}

template <class T, u32 F> OP B<T> op_sqrt(B<T> a) {
  a = flush<F>(a);
  if constexpr ((F & ROUNDING) != 0) {
    if constexpr (sizeof(a) == 4) return flush<F>(canonical(rt_rounded_f32('s', F & ROUNDING, a, 0, 0)));
    else return canonical(rt_rounded_f64('s', F & ROUNDING, a, 0, 0));
  } else {
    if constexpr (sizeof(a) == 4) return flush<F>(canonical(__builtin_sqrtf(a)));
    else return canonical(__builtin_sqrt(a));
  }
}
template <class T, u32 F> OP B<T> op_rcp(B<T> a) { return arithmetic<'/', T, F>((B<T>)1, a); }
template <class T, u32 F> OP B<T> op_rsqrt(B<T> a) {
  a = flush<F>(a);
  if constexpr (sizeof(a) == 4) return flush<F>(canonical((float)(1.0 / __builtin_sqrt((double)a))));
  else return canonical(1.0 / __builtin_sqrt(a));
}

#define APPROXIMATED(NAME, LETTER)                                                                        \
  template <class T, u32 F> OP B<T> NAME(B<T> a) {                                                        \
    if constexpr (is_pair<T>) {                                                                           \
      PAIRWISE((NAME<E, F>((u16)(a >> s))))                                                               \
    } else if constexpr (is_half<T>) {                                                                    \
      return half_finish<T, F>(from_value<T>(rt_approx_f32(LETTER, value<T>(half_flush<T, F>(a)))));      \
    } else {                                                                                              \
      return flush<F>(canonical(rt_approx_f32(LETTER, flush<F>(a))));                                     \
    }                                                                                                     \
  }
APPROXIMATED(op_ex2, 'e')
APPROXIMATED(op_lg2, 'l')
APPROXIMATED(op_sin, 's')
APPROXIMATED(op_cos, 'c')
APPROXIMATED(op_tanh, 't')

template <class T, u32 F> OP B<T> op_copysign(B<T> a, B<T> b) {  // magnitude of b, sign of a
  if constexpr (sizeof(a) == 4) return __builtin_copysignf(b, a);
  else return __builtin_copysign(b, a);
}

enum { FINITE, INFINITE, NUMBER, NOTANUMBER, NORMAL, SUBNORMAL };
template <class T, u32 K> OP bool op_testp(B<T> a) {
  bool nan = a != a, infinite = !nan && (a - a) != 0;
  B<T> magnitude = a < 0 ? -a : a;
  bool small = magnitude < (sizeof(a) == 4 ? (B<T>)0x1p-126 : (B<T>)0x1p-1022);
  switch (K) {
    case FINITE: return !nan && !infinite;
    case INFINITE: return infinite;
    case NUMBER: return !nan;
    case NOTANUMBER: return nan;
    case NORMAL: return !nan && !infinite && !small;
    default: return small && a != 0;
  }
}
