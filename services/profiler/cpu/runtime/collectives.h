// Atomics and what warp collectives compute from the exchanged values.
#pragma once
#include "convert.h"

enum Atom : u32 { ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC };

template <class T, u32 O> OP B<T> combine(B<T> old, B<T> x, B<T> replacement) {
  if constexpr (O == ATOM_ADD) return op_add<T, 0>(old, x);
  else if constexpr (O == ATOM_MIN) return op_min<T, 0>(old, x);
  else if constexpr (O == ATOM_MAX) return op_max<T, 0>(old, x);
  else if constexpr (O == ATOM_AND) return (B<T>)(old & x);
  else if constexpr (O == ATOM_OR) return (B<T>)(old | x);
  else if constexpr (O == ATOM_XOR) return (B<T>)(old ^ x);
  else if constexpr (O == ATOM_EXCH) return x;
  else if constexpr (O == ATOM_CAS) return old == x ? replacement : old;
  else if constexpr (O == ATOM_INC) return old >= x ? 0 : old + 1;
  else return old == 0 || old > x ? x : old - 1;
}

// A thread that polls with atomics must let others run: one that changed nothing may be polling.
template <bool H, class T, u32 O, bool IN_SHARED>
static inline B<T> atomic(Thread* t, Site* s, u64 a, B<T> x, B<T> replacement = B<T>()) {
  void* p = IN_SHARED ? shared_address<H, B<T>>(t, s, a, nullptr) : global_address<H, B<T>>(t, s, a, nullptr);
  B<T> old;
  memcpy(&old, p, sizeof old);
  B<T> updated = combine<T, O>(old, x, replacement);
  memcpy(p, &updated, sizeof updated);
  if (O == ATOM_CAS || O == ATOM_EXCH || memcmp(&old, &updated, sizeof old) == 0) rt_spin(t);
  return old;
}

OP u32 shuffle_up(u32 lane, u32 b, u32 c, bool* found) {
  u32 segment = c >> 8 & 31;
  i32 lowest = (i32)((lane & segment) | (c & 31 & ~segment)), j = (i32)lane - (i32)(b & 31);
  *found = j >= lowest;
  return *found ? (u32)j : lane;
}
OP u32 shuffle_bounded(u32 lane, u32 j, u32 c, bool* found) {
  u32 segment = c >> 8 & 31;
  *found = j <= ((lane & segment) | (c & 31 & ~segment));
  return *found ? j : lane;
}
OP u32 shuffle_down(u32 lane, u32 b, u32 c, bool* found) { return shuffle_bounded(lane, lane + (b & 31), c, found); }
OP u32 shuffle_bfly(u32 lane, u32 b, u32 c, bool* found) { return shuffle_bounded(lane, lane ^ (b & 31), c, found); }
OP u32 shuffle_idx(u32 lane, u32 b, u32 c, bool* found) {
  u32 segment = c >> 8 & 31;
  return shuffle_bounded(lane, (lane & segment) | (b & 31 & ~segment), c, found);
}

static inline u32 ballot(u32 lanes, const u64* all) {
  u32 yes = 0;
  for (u32 i = 0; i < WARP; i++)
    if ((lanes >> i & 1) && all[i]) yes |= 1u << i;
  return yes;
}
static inline u32 matching(u32 lanes, const u64* all, u32 lane) {
  u32 same = 0;
  for (u32 i = 0; i < WARP; i++)
    if ((lanes >> i & 1) && all[i] == all[lane]) same |= 1u << i;
  return same;
}
template <class T, u32 O>
static inline u32 reduce_lanes(u32 lanes, const u64* all) {
  u32 first = (u32)__builtin_ctz(lanes), r = (u32)all[first];
  for (u32 i = first + 1; i < WARP; i++)
    if (lanes >> i & 1) r = combine<T, O>(r, (u32)all[i], 0);
  return r;
}
