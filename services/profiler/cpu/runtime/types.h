// PTX types as C++ tags: `bits` is what a register holds, `value` what arithmetic uses.
#pragma once
#include "access.h"

struct pred { typedef bool bits; typedef bool value; };
struct b8 { typedef u8 bits; typedef u8 value; };
struct u8_ { typedef u8 bits; typedef u8 value; };
struct s8 { typedef u8 bits; typedef i8 value; };
struct b16 { typedef u16 bits; typedef u16 value; };
struct u16_ { typedef u16 bits; typedef u16 value; };
struct s16 { typedef u16 bits; typedef i16 value; };
struct b32 { typedef u32 bits; typedef u32 value; };
struct u32_ { typedef u32 bits; typedef u32 value; };
struct s32 { typedef u32 bits; typedef i32 value; };
struct b64 { typedef u64 bits; typedef u64 value; };
struct u64_ { typedef u64 bits; typedef u64 value; };
struct s64 { typedef u64 bits; typedef i64 value; };
struct f32 { typedef float bits; typedef float value; };
struct f64 { typedef double bits; typedef double value; };
// A half is computed in float or double and rounded once.
struct f16 { typedef u16 bits; typedef float value; };
struct bf16 { typedef u16 bits; typedef float value; };
struct f16x2 { typedef u32 bits; typedef f16 half; };
struct bf16x2 { typedef u32 bits; typedef bf16 half; };
struct u16x2 { typedef u32 bits; typedef u16_ half; };
struct s16x2 { typedef u32 bits; typedef s16 half; };

template <class T> constexpr bool is_half = false;
template <> constexpr bool is_half<f16> = true;
template <> constexpr bool is_half<bf16> = true;
template <class T> constexpr bool is_pair = false;
template <> constexpr bool is_pair<f16x2> = true;
template <> constexpr bool is_pair<bf16x2> = true;
template <> constexpr bool is_pair<u16x2> = true;
template <> constexpr bool is_pair<s16x2> = true;
template <class T> constexpr bool is_real = is_half<T>;
template <> constexpr bool is_real<f32> = true;
template <> constexpr bool is_real<f64> = true;
template <class T> constexpr bool is_signed = false;
template <> constexpr bool is_signed<s8> = true;
template <> constexpr bool is_signed<s16> = true;
template <> constexpr bool is_signed<s32> = true;
template <> constexpr bool is_signed<s64> = true;

template <class T> using B = typename T::bits;
template <class T> using V = typename T::value;
template <int N> struct Unsigned;
template <> struct Unsigned<1> { typedef u8 type; };
template <> struct Unsigned<2> { typedef u16 type; };
template <> struct Unsigned<4> { typedef u32 type; };
template <> struct Unsigned<8> { typedef u64 type; };
template <class T> using U = typename Unsigned<sizeof(T)>::type;

#define OP static inline __attribute__((always_inline))

// Modifiers of an instruction, as template argument.
enum Flag : u32 {
  RZ = 1, RM = 2, RP = 3, ROUNDING = 3,  // 0: to nearest even
  FTZ = 4, SAT = 8, HI = 16, LO = 32, WIDE = 64, CARRY_IN = 128, CARRY_OUT = 256, NAN_ = 512, RELU = 1024,
  WRAP = 2048, LEFT = 4096, INTEGRAL = 8192, SHIFT_AMOUNT = 16384, APPROX = 32768, RNA = 65536,
};

OP float f32_from_f16(u16 x) { return (float)bits<_Float16>(x); }
OP float f32_from_bf16(u16 x) { return bits<float>((u32)x << 16); }
OP u16 f16_from_f32(float x) {
  if (x != x) return 0x7fff;
  return bits<u16>((_Float16)x);
}
OP u16 f16_from_f64(double x) {
  if (x != x) return 0x7fff;
  return bits<u16>((_Float16)x);
}
OP u16 bf16_from_f32(float x) {
  if (x != x) return 0x7fff;
  u32 u = bits<u32>(x);
  return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

template <class T> OP V<T> value(B<T> x) {
  if constexpr (__is_same(T, f16)) return f32_from_f16(x);
  else if constexpr (__is_same(T, bf16)) return f32_from_bf16(x);
  else return (V<T>)x;
}
template <class T> OP B<T> from_value(V<T> x) {
  if constexpr (__is_same(T, f16)) return f16_from_f32(x);
  else if constexpr (__is_same(T, bf16)) return bf16_from_f32(x);
  else return (B<T>)x;
}
