// State of a launch on the host: blocks, warps, barriers, findings. Internal to the runtime.
#pragma once
#include <vector>

#include "device.h"

namespace optiml {

enum ThreadState : u8 { READY, SPINNING, AT_BARRIER, AT_EXCHANGE, CONVERGING, THROTTLED, DONE };
enum Status : u32 { OK, TIMED_OUT, DEADLOCK, FAULT, TRAP, NO_ADDRESS_SPACE };
enum FindingKind : u32 { RACE, OUT_OF_BOUNDS, MISALIGNED, UNINITIALISED, DIVERGENT_BARRIER, DEADLOCKED };

constexpr u32 BACKWARD = 1, SHUFFLED = 2;  // Request::order; 0 is forward

constexpr u32 FINDINGS_MAX = 20;
constexpr u32 BARRIERS = 16;

// The layouts of these four are mirrored in services/profiler/cpu/native.py.
struct Allocation {
  u64 base, bytes;
  u32 initialised;  // all of it
  u32 number;
};
struct Finding {
  u32 kind, line, other_line;
  u32 block[3], thread[3];
  char message[200];
};
struct Request {
  u32 grid[3], block[3];
  u32 entry, dynamic_shared, static_shared, dynamic_align;
  u32 check, count, order, cooperative;
  u64 seed;
  const u8* params;
  u64 params_bytes;
  const u64* blocks;  // linear indices; null: all of the grid
  u64 blocks_count;
  double time_limit_s;
  u64 step_limit;
  u64 arena, arena_bytes;
  const Allocation* allocations;  // by address
  u64 allocations_count;
  u8* written;  // one bit for each byte of the arena
  u32 l1_lines_of_a_warp;  // its share of L1
};
struct Reply {
  u32 status, findings_count;
  u32 trap_line;
  char trap[60];
  u64 blocks_run, threads_run;
  Finding findings[FINDINGS_MAX];
  u64* warp_blocks;    // entries of each basic block by warps
  u64* thread_blocks;  // and by threads
  u64* memory;         // see counters.h
  u64* traffic;        // for each allocation, see traffic.h
};

// A warp collective in progress. Two buffers: a lane may wait again before the last has read the previous values.
struct Exchange {
  u32 mask, kind, arrived, generation;
  u32 lanes[2];
  u64 values[2][WARP];
};
struct Warp {
  u32 alive;
  std::vector<Exchange> exchanges;
};
struct Barrier {
  u32 arrived, count, site, line, other_line;
  bool mixed;
  u32 popc, all, any;
};

struct CheckerBlock;  // see checker.cc

struct Block {
  u64 linear;
  u32 serial;  // unique over all launches of the process
  u32 alive;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barriers[BARRIERS];
  u8* window = nullptr;  // shared memory, from shared address 0
  u8* stacks = nullptr;
  u64 stacks_bytes = 0;
  u8* locals = nullptr;
  u64 locals_bytes = 0;
  std::vector<u32> counts;
  u32 quiet_passes;  // passes in which threads only polled
  CheckerBlock* checker = nullptr;
};

struct State {
  const Module* module;
  const KernelEntry* entry;
  Launch launch;
  Request* request;
  Reply* reply;
  bool checked;
  u32 status;
  bool stopped;
  Thread* current;
  void* scheduler;
  double deadline;
  u64 steps;
  u64 random;
  bool progressed;  // since the current pass began
};
extern State state;

// Blocks.
void make_block(Block& block, u64 linear);
void unmake_block(Block& block);
void thread_ended(Thread* t);

// Scheduling.
void suspend(Thread* t);  // back to the scheduler, whatever state the thread is in
[[noreturn]] void stop(u32 status);
void out_of_memory();       // ends the launch from the scheduler
void barriers_recheck(Block& block);
void warp_recheck(Block& block, u32 warp);
double now_s();

void report(u32 kind, Thread* t, u32 line, u32 other_line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

// Memory.
const Allocation* find_allocation(u64 address);
void* fault(Thread* t, Site* site, u64 address, u32 kind);

// Checker; time passes at each barrier and collective.
void checker_launch();
void checker_close();
void checker_block(Block& block);
void checker_arrive(Block& block, u32 id, u32 warp);  // at a barrier with a count
void checker_barrier(Block& block, u32 id, bool full, const std::vector<u32>& warps);
void checker_warp(Block& block, u32 warp);
void checker_access(Thread* t, Site* site, u64 address, u8* host, bool shared, const Allocation* allocation,
                    const void* value);
// The write of an asynchronous copy may happen from here on.
void checker_issue(Thread* t, Site* site, u64 address);
// What a strong access does for the order of others.
void checker_synchronise(Thread* t, Site* site, u8* host);

// Counters.
void counters_launch();
void counters_close();
void counters_block();
void counters_access(Thread* t, Site* site, u64 address, bool shared);
void counters_flush();
void counters_block_end(Block& block);

// Drops the copies that a thread has not waited for.
void async_forget(Thread* t);

}  // namespace optiml
