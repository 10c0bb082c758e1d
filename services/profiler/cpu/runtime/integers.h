// Integer and bit arithmetic with the device's rules: shifts clamp, division by zero is defined, nothing traps.
#pragma once
#include "floats.h"

template <class T> struct Wide;
template <> struct Wide<s16> { typedef i32 type; };
template <> struct Wide<u16_> { typedef u32 type; };
template <> struct Wide<s32> { typedef i64 type; };
template <> struct Wide<u32_> { typedef u64 type; };
template <> struct Wide<s64> { typedef __int128 type; };
template <> struct Wide<u64_> { typedef unsigned __int128 type; };
template <class T> struct Widened;
template <> struct Widened<s16> { typedef u32 bits; };
template <> struct Widened<u16_> { typedef u32 bits; };
template <> struct Widened<s32> { typedef u64 bits; };
template <> struct Widened<u32_> { typedef u64 bits; };

OP u32 clamp_s32(i64 x) { return (u32)(i32)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x); }

#define ADDITIVE(NAME, SIGN)                                                                          \
  template <class T, u32 F> OP B<T> NAME(B<T> a, B<T> b) {                                            \
    if constexpr (is_pair<T>) {                                                                       \
      PAIRWISE((NAME<E, F>((u16)(a >> s), (u16)(b >> s))))                                            \
    } else if constexpr (is_real<T>) {                                                                \
      return arithmetic<(#SIGN)[0], T, F>(a, b);                                                      \
    } else if constexpr ((F & SAT) != 0) {                                                            \
      return clamp_s32((i64)(i32)a SIGN (i64)(i32)b);                                                 \
    } else {                                                                                          \
      return (B<T>)(a SIGN b);                                                                        \
    }                                                                                                 \
  }
ADDITIVE(op_add, +)
ADDITIVE(op_sub, -)

template <class T, u32 F> OP auto op_mul(B<T> a, B<T> b) {
  if constexpr (is_pair<T>) {
    PAIRWISE((op_mul<E, F>((u16)(a >> s), (u16)(b >> s))))
  } else if constexpr (is_real<T>) {
    return arithmetic<'*', T, F>(a, b);
  } else {
    typedef typename Wide<T>::type W;
    W p = (W)(V<T>)a * (W)(V<T>)b;
    if constexpr ((F & WIDE) != 0) return (typename Widened<T>::bits)p;
    else if constexpr ((F & HI) != 0) return (B<T>)(p >> (8 * sizeof(a)));
    else return (B<T>)((u64)a * (u64)b);
  }
}
template <class T, u32 F, class C> OP C op_mad(B<T> a, B<T> b, C c) {
  if constexpr (is_real<T>) return op_fma<T, F>(a, b, c);
  else if constexpr ((F & SAT) != 0) return clamp_s32((i64)(i32)op_mul<T, HI>(a, b) + (i64)(i32)c);
  else return (C)(op_mul<T, F>(a, b) + c);
}
template <class T, u32 F> OP u32 op_mul24(u32 a, u32 b) {
  i64 x = is_signed<T> ? (i64)((i32)(a << 8) >> 8) : (i64)(a & 0xffffff);
  i64 y = is_signed<T> ? (i64)((i32)(b << 8) >> 8) : (i64)(b & 0xffffff);
  return (F & HI) != 0 ? (u32)(x * y >> 16) : (u32)(x * y);
}
template <class T, u32 F> OP u32 op_mad24(u32 a, u32 b, u32 c) {
  if constexpr ((F & SAT) != 0) return clamp_s32((i64)(i32)op_mul24<T, F>(a, b) + (i64)(i32)c);
  return op_mul24<T, F>(a, b) + c;
}

// Carry chains. A subtraction's carry flag is a borrow.
template <class T, u32 F> OP B<T> op_addc(B<T> a, B<T> b, bool& carry) {
  unsigned __int128 sum = (unsigned __int128)a + b + ((F & CARRY_IN) != 0 ? carry : false);
  if constexpr ((F & CARRY_OUT) != 0) carry = (sum >> (8 * sizeof(a))) != 0;
  return (B<T>)sum;
}
template <class T, u32 F> OP B<T> op_subc(B<T> a, B<T> b, bool& carry) {
  unsigned __int128 subtrahend = (unsigned __int128)b + ((F & CARRY_IN) != 0 ? carry : false);
  if constexpr ((F & CARRY_OUT) != 0) carry = a < subtrahend;
  return (B<T>)(a - subtrahend);
}
template <class T, u32 F> OP B<T> op_madc(B<T> a, B<T> b, B<T> c, bool& carry) {
  return op_addc<T, F>((B<T>)op_mul<T, F & (HI | LO)>(a, b), c, carry);
}

// Division and remainder by zero give all ones: what an H200 does; the ISA leaves it open.
template <class T, u32 F> OP B<T> op_div(B<T> a, B<T> b) {
  if constexpr (is_real<T>) {
    return arithmetic<'/', T, F>(a, b);
  } else {
    if (b == 0) return (B<T>)~(B<T>)0;
    if constexpr (is_signed<T>)
      if ((V<T>)b == -1) return (B<T>)(0 - a);
    return (B<T>)((V<T>)a / (V<T>)b);
  }
}
template <class T, u32 F> OP B<T> op_rem(B<T> a, B<T> b) {
  if (b == 0) return (B<T>)~(B<T>)0;
  if constexpr (is_signed<T>)
    if ((V<T>)b == -1) return 0;
  return (B<T>)((V<T>)a % (V<T>)b);
}

#define EXTREMUM(NAME, MAX)                                                                                 \
  template <class T, u32 F> OP B<T> NAME(B<T> a, B<T> b) {                                                  \
    if constexpr (is_pair<T>) {                                                                             \
      PAIRWISE((NAME<E, F>((u16)(a >> s), (u16)(b >> s))))                                                  \
    } else if constexpr (is_half<T>) {                                                                      \
      return half_extremum<MAX, T, F>(a, b);                                                                \
    } else if constexpr (is_real<T>) {                                                                      \
      return real_extremum<MAX, F>(a, b);                                                                   \
    } else {                                                                                                \
      B<T> r = ((V<T>)a < (V<T>)b) == MAX ? b : a;                                                          \
      if constexpr ((F & RELU) != 0)                                                                        \
        if ((V<T>)r < 0) r = 0;                                                                             \
      return r;                                                                                             \
    }                                                                                                       \
  }
EXTREMUM(op_min, false)
EXTREMUM(op_max, true)

template <class T, u32 F> OP B<T> op_neg(B<T> a) {
  if constexpr (is_pair<T>) {
    PAIRWISE((op_neg<E, F>((u16)(a >> s))))
  } else if constexpr (is_half<T>) {
    return half_flush<T, F>((u16)(a ^ 0x8000));
  } else if constexpr (is_real<T>) {
    return canonical(flush<F>(-a));
  } else {
    return (B<T>)(0 - a);
  }
}
template <class T, u32 F> OP B<T> op_abs(B<T> a) {
  if constexpr (is_pair<T>) {
    PAIRWISE((op_abs<E, F>((u16)(a >> s))))
  } else if constexpr (is_half<T>) {
    return half_flush<T, F>((u16)(a & 0x7fff));
  } else if constexpr (__is_same(T, f32)) {
    return canonical(flush<F>(__builtin_fabsf(a)));
  } else if constexpr (__is_same(T, f64)) {
    return __builtin_fabs(a);
  } else {
    return (V<T>)a < 0 ? (B<T>)(0 - a) : a;
  }
}
template <class T, u32 F> OP B<T> op_and(B<T> a, B<T> b) { return (B<T>)(a & b); }
template <class T, u32 F> OP B<T> op_or(B<T> a, B<T> b) { return (B<T>)(a | b); }
template <class T, u32 F> OP B<T> op_xor(B<T> a, B<T> b) { return (B<T>)(a ^ b); }
template <class T, u32 F> OP B<T> op_not(B<T> a) {
  if constexpr (__is_same(T, pred)) return !a;
  else return (B<T>)~a;
}
template <class T, u32 F> OP B<T> op_cnot(B<T> a) { return (B<T>)(a == 0); }
template <class T, u32 F> OP B<T> op_shl(B<T> a, u32 n) { return n >= 8 * sizeof(a) ? (B<T>)0 : (B<T>)(a << n); }
template <class T, u32 F> OP B<T> op_shr(B<T> a, u32 n) {
  if (n >= 8 * sizeof(a)) n = is_signed<T> ? 8 * sizeof(a) - 1 : 64;
  return n == 64 ? (B<T>)0 : (B<T>)((V<T>)a >> n);
}
template <class T, u32 F> OP u32 op_shf(u32 a, u32 b, u32 n) {
  n = (F & WRAP) != 0 ? n & 31 : n > 32 ? 32 : n;
  u64 both = (u64)b << 32 | a;
  return (F & LEFT) != 0 ? (u32)((both << n) >> 32) : (u32)(both >> n);
}

// The 32-bit forms look at the low byte of position and length only; the 64-bit ones are emulated and do not.
template <class T, u32 F> OP B<T> op_bfe(B<T> a, u32 position, u32 length) {
  constexpr u32 top = 8 * sizeof(a) - 1;
  if (sizeof(a) == 4) position &= 0xff, length &= 0xff;
  bool sign = false;
  if (is_signed<T> && length != 0) {
    u64 last = (u64)position + length - 1;
    sign = a >> (last > top ? top : last) & 1;
  }
  B<T> r = 0;
  if (position <= top) {
    r = (B<T>)((U<B<T>>)a >> position);
    u32 kept = length > top + 1 - position ? top + 1 - position : length;
    if (kept <= top) r &= (B<T>)(((B<T>)1 << kept) - 1);
    if (sign && kept <= top) r |= (B<T>)(~(B<T>)0 << kept);
  } else if (sign) {
    r = (B<T>)~(B<T>)0;
  }
  return r;
}
template <class T, u32 F> OP B<T> op_bfi(B<T> a, B<T> b, u32 position, u32 length) {
  constexpr u32 width = 8 * sizeof(a);
  position &= 0xff, length &= 0xff;
  if (position >= width || length == 0) return b;
  B<T> mask = length >= width ? (B<T>)~(B<T>)0 : (B<T>)(((B<T>)1 << length) - 1);
  mask <<= position;
  return (B<T>)((b & ~mask) | ((a << position) & mask));
}
template <class T, u32 F> OP B<T> op_bmsk(u32 position, u32 width) {
  if ((F & WRAP) != 0) position &= 31, width &= 31;
  u64 ones = width >= 32 ? 0xffffffffull : (1ull << width) - 1;
  return position >= 32 ? 0 : (u32)(ones << position);
}
template <class T, u32 F> OP u32 op_popc(B<T> a) { return (u32)__builtin_popcountll(a); }
template <class T, u32 F> OP u32 op_clz(B<T> a) {
  return a == 0 ? 8 * sizeof(a) : (u32)__builtin_clzll(a) - (64 - 8 * sizeof(a));
}
template <class T, u32 F> OP B<T> op_brev(B<T> a) {
  u64 x = __builtin_bswap64((u64)a);
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
  x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
  x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
  return (B<T>)(x >> (64 - 8 * sizeof(a)));
}
template <class T, u32 F> OP u32 op_bfind(B<T> a) {
  if (is_signed<T> && (V<T>)a < 0) a = (B<T>)~a;
  if (a == 0) return 0xffffffffu;
  u32 position = 63 - (u32)__builtin_clzll(a);
  return (F & SHIFT_AMOUNT) != 0 ? 8 * sizeof(a) - 1 - position : position;
}
template <class T, u32 F> OP u32 op_fns(u32 mask, u32 base, i32 offset) {
  if (offset == 0) return mask >> (base & 31) & 1 ? base : 0xffffffffu;
  i32 step = offset > 0 ? 1 : -1, count = offset > 0 ? offset : -offset, found = 0;
  for (i64 p = (i64)base; p >= 0 && p < 32; p += step)
    if (mask >> p & 1 && ++found == count) return (u32)p;
  return 0xffffffffu;
}
template <class T, u32 F> OP u32 op_lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 r = 0;
  for (u32 i = 0; i < 8; i++)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}

enum { PRMT, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16 };
template <class T, u32 K> OP u32 op_prmt(u32 a, u32 b, u32 c) {
  u64 both = (u64)b << 32 | a;
  u32 r = 0, s = c & 3;
  for (u32 i = 0; i < 4; i++) {
    u32 pick = 0;
    switch (K) {
      case PRMT: pick = c >> (4 * i) & 15; break;
      case PRMT_F4E: pick = (s + i) & 7; break;
      case PRMT_B4E: pick = (s - i) & 7; break;
      case PRMT_RC8: pick = s; break;
      case PRMT_ECL: pick = i < s ? s : i; break;
      case PRMT_ECR: pick = i > s ? s : i; break;
      case PRMT_RC16: pick = 2 * (s & 1) + (i & 1); break;
    }
    u32 byte = (u32)(both >> (8 * (pick & 7))) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}

template <class T, u32 F> OP B<T> op_sad(B<T> a, B<T> b, B<T> c) {
  return (B<T>)(c + ((V<T>)a < (V<T>)b ? (B<T>)(b - a) : (B<T>)(a - b)));
}
// Dot products of four bytes, or of two halves with two bytes of `b` (LO or HI).
template <class A, class C, u32 F> OP u32 op_dp4a(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 4; i++) {
    i32 x = is_signed<A> ? (i32)(i8)(a >> (8 * i)) : (i32)(u8)(a >> (8 * i));
    i32 y = is_signed<C> ? (i32)(i8)(b >> (8 * i)) : (i32)(u8)(b >> (8 * i));
    c += (u32)(x * y);
  }
  return c;
}
template <class A, class C, u32 F> OP u32 op_dp2a(u32 a, u32 b, u32 c) {
  u32 skip = (F & HI) != 0 ? 2 : 0;
  for (u32 i = 0; i < 2; i++) {
    i32 x = is_signed<A> ? (i32)(i16)(a >> (16 * i)) : (i32)(u16)(a >> (16 * i));
    i32 y = is_signed<C> ? (i32)(i8)(b >> (8 * (i + skip))) : (i32)(u8)(b >> (8 * (i + skip)));
    c += (u32)x * (u32)y;
  }
  return c;
}
template <class T, u32 F> OP B<T> op_slct(B<T> a, B<T> b, bool first) { return first ? a : b; }
