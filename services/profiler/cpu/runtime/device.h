// What translated kernels and the runtime share: threads, blocks, launches and access sites.
//
// Kept free of the C++ standard library: each translated kernel includes it, and its parsing time is paid for every
// variant that is built.
#pragma once
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// Shared addresses begin here, as on sm_80 and later, where the first KiB belongs to the system. So a null shared
// pointer is out of bounds.
constexpr u32 SHARED_START = 1024;
constexpr u32 SHARED_BYTES_MAX = 227 * 1024;
constexpr u32 BLOCK_THREADS_MAX = 1024;
constexpr u32 WARP = 32;
constexpr u64 GRID_WORKSPACE_BYTES = 4096;

enum Space : u8 { GENERIC = 0, GLOBAL = 1, SHARED = 2, CONSTANT = 3 };
enum Access : u8 { LOAD = 0, STORE = 1, ATOMIC = 2 };
// How an access orders memory. Two STRONG accesses never race with each other.
enum Order : u8 { WEAK = 0, STRONG = 1, ACQUIRE = 3, RELEASE = 5, ACQ_REL = 7 };

// One memory instruction of the module. `low` and `limit` remember the allocation that it touched last, so that the
// unchecked variant of a kernel tests bounds with one comparison.
struct Site {
  u64 low;
  u64 limit;  // allocation bytes - size + 1; 0: nothing remembered
  u32 line;
  u16 size;
  u8 space;
  u8 access;
  u8 order;
  u8 merged;  // bytes that ptxas makes it load together with others, or MERGED_FOLLOWER; 0: it stays alone
};
constexpr u8 MERGED_FOLLOWER = 255;

namespace optiml {
struct Block;
}

// What all threads of a launch read.
struct Launch {
  u32 block[3];
  u32 grid[3];
  const u8* params;
  u64 params_bytes;
  i64 fuel;  // back-edges until the clock is looked at
  u64 grid_workspace;  // of cooperative launches, GRID_WORKSPACE_BYTES
  bool fibres;
};

// One CUDA thread.
struct Thread {
  u32 tid[3];
  u32 linear;
  u32 lane;
  u32 ctaid[3];
  Launch* launch;
  optiml::Block* block;
  u8* shared;        // host address of shared address 0
  u64 shared_bytes;  // of this block, static and dynamic
  u32 dynamic_shared;  // shared address where the dynamic part begins
  u32* block_counts;  // entries of each basic block by this thread; only in the checked variant
  u8* local_low;
  u8* local_top;  // first free byte of the local stack
  u8* local_end;
  u8* stack_low;
  // Of the scheduler and the checker.
  void* stack_pointer;
  u8 state;
  u32 fences;      // fences that it has passed
  u32 ticks;       // looks at the clock
  u32 wait_site;   // barrier or activemask that it waits at
  u32 wait_line;
  u32 barrier_id;
  u32 result;      // what the wait gave: a barrier's reduction, the lanes of an activemask
};

struct KernelEntry {
  const char* name;
  void (*plain)(Thread*);
  void (*checked)(Thread*);
  u8 fibres;  // has barriers, collectives or spin loops
  u32 local_bytes;  // local memory a thread
};

// What a translated module exports under the name `optiml_module`.
struct Module {
  const KernelEntry* entries;
  u32 entry_count;
  Site* sites;
  u32 site_count;
  u32 block_count;  // basic blocks
  u64* memory;      // where to write the address of its module variables
};

extern "C" {
// Host address for an access outside of what its site remembers; reports a fault and gives a harmless address if
// there is no such memory.
void* rt_resolve(Thread* t, Site* site, u64 address);
// The same with all checks and counts; `value` is what a store will write.
void* rt_access(Thread* t, Site* site, u64 address, const void* value);
void rt_local_fault(Thread* t, u64 address, u32 bytes, u32 line);
// Ends the thread from within a device function.
[[noreturn]] void rt_exit(Thread* t);
[[noreturn]] void rt_stack_overflow(Thread* t);
[[noreturn]] void rt_trap(Thread* t, u32 line, const char* what);
void rt_tick(Thread* t);
// Lets other threads run: this one may be waiting for a value that they write.
void rt_spin(Thread* t);
void rt_fence(Thread* t);
// Waits at barrier `id` for `count` threads (0: all of the block). `reduction` 0 none, 1 popc, 2 and, 3 or.
u32 rt_barrier(Thread* t, u32 site, u32 line, u32 id, u32 count, u32 reduction, u32 predicate);
void rt_barrier_arrive(Thread* t, u32 site, u32 line, u32 id, u32 count);
// Exchanges `value` between the lanes of `mask`; `all` gets the 32 values, the result is the lanes that took part.
u32 rt_exchange(Thread* t, u32 line, u32 kind, u32 mask, u64 value, u64* all);
// The lanes that wait here when nothing else of the warp can run: those that hardware would find converged.
u32 rt_active_mask(Thread* t, u32 site);
u64 rt_clock(Thread* t);
// cp.async: the copy is carried out when it is waited for, so that a missing wait is seen. The first `filled` bytes
// come from global memory through `from` (or byte by byte through `part`), the rest is zero.
void rt_async_copy(Thread* t, Site* from, Site* part, Site* to, u64 shared, u64 global, u32 filled, bool checked);
void rt_async_commit(Thread* t);
// Completes all but the newest `groups` groups; ~0 also what was not committed.
void rt_async_wait(Thread* t, u32 groups);
u64 rt_global_timer(Thread* t);
}
