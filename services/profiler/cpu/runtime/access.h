// Loads, stores and atomics of translated kernels. `H` (hooked) selects the variant with checks and counts.
#pragma once
#include "device.h"

template <class T, int N>
struct Vec {
  T e[N];
};

template <class To, class From>
static inline __attribute__((always_inline)) To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "reinterprets, never converts");
  return __builtin_bit_cast(To, from);
}

template <bool H, class V>
static inline __attribute__((always_inline)) void* global_address(Thread* t, Site* s, u64 a, const void* value) {
  if (H) return rt_access(t, s, a, value);
  if (UNLIKELY(a - s->low >= s->limit || (a & (sizeof(V) - 1)))) return rt_resolve(t, s, a);
  return (void*)a;
}

template <bool H, class V>
static inline __attribute__((always_inline)) void* shared_address(Thread* t, Site* s, u64 a, const void* value) {
  if (H) return rt_access(t, s, a, value);
  u64 offset = a - SHARED_START;
  if (UNLIKELY(offset >= t->shared_bytes || offset + sizeof(V) > t->shared_bytes || (a & (sizeof(V) - 1))))
    return rt_resolve(t, s, a);
  return t->shared + a;
}

template <bool H, class V>
static inline __attribute__((always_inline)) V global_load(Thread* t, Site* s, u64 a) {
  V v;
  memcpy(&v, global_address<H, V>(t, s, a, nullptr), sizeof v);
  return v;
}

template <bool H, class V>
static inline __attribute__((always_inline)) V shared_load(Thread* t, Site* s, u64 a) {
  V v;
  memcpy(&v, shared_address<H, V>(t, s, a, nullptr), sizeof v);
  return v;
}

template <bool H, class V>
static inline __attribute__((always_inline)) void global_store(Thread* t, Site* s, u64 a, V v) {
  memcpy(global_address<H, V>(t, s, a, &v), &v, sizeof v);
}

template <bool H, class V>
static inline __attribute__((always_inline)) void shared_store(Thread* t, Site* s, u64 a, V v) {
  memcpy(shared_address<H, V>(t, s, a, &v), &v, sizeof v);
}

static inline __attribute__((always_inline)) bool local_ok(Thread* t, u64 a, u32 n) {
  return LIKELY(a - (u64)t->local_low <= (u64)(t->local_top - t->local_low) - n && !(a & (n - 1)) &&
                (u64)(t->local_top - t->local_low) >= n);
}

template <class V>
static inline V local_load(Thread* t, u64 a, u32 line) {
  V v;
  if (local_ok(t, a, sizeof v)) {
    memcpy(&v, (void*)a, sizeof v);
  } else {
    rt_local_fault(t, a, sizeof v, line);
    memset(&v, 0xff, sizeof v);
  }
  return v;
}

template <class V>
static inline void local_store(Thread* t, u64 a, V v, u32 line) {
  if (local_ok(t, a, sizeof v))
    memcpy((void*)a, &v, sizeof v);
  else
    rt_local_fault(t, a, sizeof v, line);
}

// Local memory of a function, poisoned; given back by restoring `local_top`.
static inline u8* local_enter(Thread* t, u32 size, u32 align) {
  u8* p = (u8*)(((u64)t->local_top + align - 1) & ~(u64)(align - 1));
  if (UNLIKELY(p + size > t->local_end)) rt_stack_overflow(t);
  t->local_top = p + size;
  memset(p, 0xff, size);
  return p;
}

// Registers live on the fibre's stack; what the runtime's own calls need stays free.
static inline __attribute__((always_inline)) void stack_check(Thread* t) {
  u8* sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  if (UNLIKELY(sp < t->stack_low + 24 * 1024)) rt_stack_overflow(t);
}

static inline __attribute__((always_inline)) void back_edge(Thread* t) {
  if (UNLIKELY(--t->launch->fuel < 0)) rt_tick(t);
}

template <class V>
static inline V parameter_load(const u8* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}

template <class V>
static inline void parameter_store(u8* p, V v) {
  memcpy(p, &v, sizeof v);
}
