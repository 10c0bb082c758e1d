// cvt, setp and set.
#pragma once
#include "integers.h"

template <u32 F> OP float to_integral(float x) {
  switch (F & ROUNDING) {
    case RZ: return __builtin_truncf(x);
    case RM: return __builtin_floorf(x);
    case RP: return __builtin_ceilf(x);
    default: return __builtin_rintf(x);
  }
}
template <u32 F> OP double to_integral(double x) {
  switch (F & ROUNDING) {
    case RZ: return __builtin_trunc(x);
    case RM: return __builtin_floor(x);
    case RP: return __builtin_ceil(x);
    default: return __builtin_rint(x);
  }
}

// Limits of an integer type; the upper one as the power of two just above it, which is exact in floating point.
template <class T> OP double low_limit() { return is_signed<T> ? -(double)(1ull << (8 * sizeof(B<T>) - 1)) : 0.0; }
template <class T> OP double high_limit() {
  return (double)(1ull << (8 * sizeof(B<T>) - 1)) * (is_signed<T> ? 1.0 : 2.0);
}
template <class T> OP B<T> highest() {
  return is_signed<T> ? (B<T>)((B<T>)~(B<T>)0 ^ (B<T>)((B<T>)1 << (8 * sizeof(B<T>) - 1))) : (B<T>)~(B<T>)0;
}
template <class T> OP B<T> lowest() { return is_signed<T> ? (B<T>)((B<T>)1 << (8 * sizeof(B<T>) - 1)) : (B<T>)0; }

// Out of range clamps; a NaN becomes 0, but the highest bit alone where source or target has 64 bits.
template <class T, class S> OP B<T> clamp_to_integer(double x) {
  if (x != x) return sizeof(B<T>) == 8 || __is_same(S, f64) ? (B<T>)((B<T>)1 << (8 * sizeof(B<T>) - 1)) : (B<T>)0;
  if (x >= high_limit<T>()) return highest<T>();
  if (x < low_limit<T>()) return lowest<T>();
  return (B<T>)(V<T>)x;
}

// From integer to integer, with .sat clamping to the target's range.
template <class D, class S, u32 F> OP B<D> integer_to_integer(B<S> a) {
  V<S> x = (V<S>)a;
  if constexpr ((F & SAT) != 0) {
    __int128 w = (__int128)x, high = (__int128)(V<D>)highest<D>(), low = (__int128)(V<D>)lowest<D>();
    return (B<D>)(w > high ? high : w < low ? low : w);
  }
  return (B<D>)(V<D>)x;
}

OP u16 f16_truncated(double x, u32 rounding) {
  u16 h = f16_from_f64(x);
  double back = (double)f32_from_f16(h);
  if (x != x || back == x) return h;
  bool down = rounding == RM || (rounding == RZ && x > 0), up = rounding == RP || (rounding == RZ && x < 0);
  if (down && back > x) h += h & 0x8000 ? 1 : -1;
  if (up && back < x) h += h & 0x8000 ? -1 : 1;
  if (up && x > 0 && h == 0x8000) h = 1;
  return h;
}
OP u16 bf16_truncated(float x, u32 rounding) {
  if (x != x) return 0x7fff;
  u32 u = bits<u32>(x), kept = u & 0xffff0000u;
  bool away = kept != u && ((rounding == RM && (u >> 31)) || (rounding == RP && !(u >> 31)));
  return (u16)((kept >> 16) + (away ? 1 : 0));
}

template <class D, class S, u32 F> OP B<D> integer_to_real(B<S> a) {
  V<S> x = (V<S>)a;
  if constexpr (__is_same(D, f64)) {
    if constexpr ((F & ROUNDING) == 0 || sizeof(x) <= 4) return (double)x;
    else return rt_rounded_f64(is_signed<S> ? 'i' : 'u', F & ROUNDING, bits<double>(x), 0, 0);
  } else if constexpr (__is_same(D, f32)) {
    if constexpr ((F & ROUNDING) == 0) return saturate<F>((float)x);
    else {
      u64 wide = is_signed<S> ? (u64)(i64)x : (u64)x;
      return saturate<F>((float)rt_rounded_f64(is_signed<S> ? 'I' : 'U', F & ROUNDING, bits<double>(wide), 0, 0));
    }
  } else if constexpr (__is_same(D, f16)) {
    // Any value past 2^17 overflows; below it a double is exact.
    double d = (double)x;
    return (F & ROUNDING) == 0 ? f16_from_f64(d) : f16_truncated(d, F & ROUNDING);
  } else {
    static_assert((F & ROUNDING) == 0 && sizeof(x) <= 4, "checked by the translator");
    return bf16_from_odd((double)x);
  }
}

template <class D, class S, u32 F> OP B<D> real_to_real(B<S> a) {
  if constexpr ((F & INTEGRAL) != 0) {
    if constexpr (is_half<S>) return half_finish<S, F>(from_value<S>(to_integral<F>(value<S>(a))));
    else return finish<F>(canonical(to_integral<F>(flush<F>(a))));
  } else if constexpr (__is_same(D, S)) {
    if constexpr (is_half<S>) return half_finish<S, F>(a);
    else return finish<F>(a);
  } else if constexpr (__is_same(D, f64)) {
    if constexpr (is_half<S>) return (double)value<S>(a);
    else return saturate<F>((double)flush<F>(a));
  } else if constexpr (__is_same(D, f32)) {
    if constexpr (is_half<S>) return saturate<F>(value<S>(a));
    else if constexpr ((F & ROUNDING) == 0) return finish<F>(canonical((float)a));
    else return finish<F>(canonical((float)rt_rounded_f64('n', F & ROUNDING, a, 0, 0)));
  } else if constexpr (__is_same(D, f16)) {
    double x = is_half<S> ? (double)value<S>(a) : (double)a;
    if constexpr (__is_same(S, f32)) x = (double)flush<F>(a);
    u16 h = (F & ROUNDING) == 0 ? f16_from_f64(x) : f16_truncated(x, F & ROUNDING);
    return half_finish<f16, F & (SAT | RELU)>(h);
  } else {
    u16 h;
    if constexpr (__is_same(S, f32)) h = (F & ROUNDING) == 0 ? bf16_from_f32(a) : bf16_truncated(a, F & ROUNDING);
    else if constexpr (__is_same(S, f64)) h = bf16_from_odd(a);
    else h = bf16_from_f32(value<S>(a));
    return half_finish<bf16, F & (SAT | RELU)>(h);
  }
}

template <class D, class S, u32 F> OP B<D> op_cvt(B<S> a) {
  if constexpr (is_real<S> && is_real<D>) {
    return real_to_real<D, S, F>(a);
  } else if constexpr (is_real<S>) {
    if constexpr (is_half<S>) return clamp_to_integer<D, S>((double)to_integral<F>(value<S>(a)));
    else return clamp_to_integer<D, S>((double)to_integral<F>(flush<F>(a)));
  } else if constexpr (is_real<D>) {
    return integer_to_real<D, S, F>(a);
  } else {
    return integer_to_integer<D, S, F>(a);
  }
}
// cvt.rn.f16x2.f32 d, a, b: a goes to the upper half.
template <class D, u32 F> OP u32 op_cvt_pair(float a, float b) {
  typedef typename D::half H;
  return (u32)real_to_real<H, f32, F>(b) | (u32)real_to_real<H, f32, F>(a) << 16;
}

// Widens a loaded or computed value of type T to a register of `To`, by T's signedness.
template <class To, class T> OP To widen(B<T> x) {
  if constexpr (sizeof(To) == sizeof(x)) return bits<To>(x);
  else if constexpr (is_real<T>) return (To)bits<U<B<T>>>(x);
  else return (To)(V<T>)x;
}

enum Comparison { EQ, NE, LT, LE, GT, GE, NUM, NOT_NUM };
// `C` is the comparison, UNORDERED is added where a NaN makes it true.
constexpr u32 UNORDERED = 16;
template <u32 C, class R> OP bool compare_values(R a, R b) {
  switch (C) {
    case EQ: return a == b;
    case NE: return a != b;
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    default: return a >= b;
  }
}
template <class T, u32 C, u32 F> OP bool op_compare(B<T> a, B<T> b) {
  if constexpr (is_real<T>) {
    V<T> x, y;
    if constexpr (is_half<T>) x = value<T>(half_flush<T, F>(a)), y = value<T>(half_flush<T, F>(b));
    else x = flush<F>(a), y = flush<F>(b);
    bool unordered = x != x || y != y;
    if constexpr ((C & 15) == NUM) return !unordered;
    else if constexpr ((C & 15) == NOT_NUM) return unordered;
    else return unordered ? (C & UNORDERED) != 0 : compare_values<C & 15>(x, y);
  } else {
    return compare_values<C & 15>((V<T>)a, (V<T>)b);
  }
}

// set: all ones or 1.0 where the comparison holds.
template <class D, class S, u32 C, u32 F> OP B<D> op_set(B<S> a, B<S> b) {
  if constexpr (is_pair<S>) {
    typedef typename S::half H;
    bool low = op_compare<H, C, F>((u16)a, (u16)b), high = op_compare<H, C, F>((u16)(a >> 16), (u16)(b >> 16));
    if constexpr (__is_same(D, S)) {
      u32 one = __is_same(H, f16) ? 0x3c00 : 0x3f80;
      return (low ? one : 0) | (high ? one << 16 : 0);
    } else {
      return (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
    }
  } else {
    bool yes = op_compare<S, C, F>(a, b);
    if constexpr (is_half<D>) return yes ? from_value<D>(1.0f) : (u16)0;
    else if constexpr (is_real<D>) return yes ? (B<D>)1 : (B<D>)0;
    else return yes ? (B<D>)~(B<D>)0 : (B<D>)0;
  }
}
