// Launches: makes blocks, schedules their threads, and ends what does not end by itself.
//
// One block runs at a time until it finishes. Only when all that is left of it polls memory (a lock, a flag of another
// block, a grid barrier) the next block is started beside it.
#include "checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "fibres.h"

namespace optiml {

State state;

namespace {

constexpr i64 FUEL = 20000;          // back-edges between two looks at the clock
constexpr u32 TICKS_PER_TURN = 50;   // looks at the clock after which a thread that never waits lets others run
constexpr u32 QUIET_PASSES = 64;     // passes of polling after which other blocks get their turn
constexpr u64 RESIDENT_THREADS = 1 << 18;

u64 random_number() {
  state.random ^= state.random << 13;
  state.random ^= state.random >> 7;
  state.random ^= state.random << 17;
  return state.random;
}

void order(std::vector<u64>& items) {
  if (state.request->order == BACKWARD) std::reverse(items.begin(), items.end());
  if (state.request->order == SHUFFLED)
    for (size_t i = items.size(); i > 1; i--) std::swap(items[i - 1], items[random_number() % i]);
}

void run(Thread* t) {
  state.current = t;
  optiml_switch(&state.scheduler, t->stack_pointer);
}

// Lanes that wait for convergence at one activemask go on together.
bool converge(Thread* first, Thread* end) {
  u32 lanes = 0, site = 0;
  for (Thread* t = first; t < end; t++)
    if (t->state == CONVERGING && (lanes == 0 || t->wait_site == site)) lanes |= 1u << t->lane, site = t->wait_site;
  for (Thread* t = first; t < end; t++)
    if (lanes >> t->lane & 1) t->state = READY, t->result = lanes;
  return lanes != 0;
}

bool unthrottle(Thread* first, Thread* end) {
  bool any = false;
  for (Thread* t = first; t < end; t++)
    if (t->state == THROTTLED) t->state = READY, any = true;
  if (any) counters_flush();
  return any;
}

// Runs one warp until none of its lanes can go on without another warp.
bool run_warp(Block& block, u32 warp) {
  Thread* first = &block.threads[warp * WARP];
  Thread* end = &block.threads[0] + std::min<size_t>(block.threads.size(), (warp + 1) * WARP);
  bool ran = false;
  for (bool again = true; again;) {
    again = false;
    for (u32 i = 0, n = (u32)(end - first); i < n; i++) {
      Thread* t = state.request->order == BACKWARD ? end - 1 - i : first + i;
      if (t->state != READY) continue;
      run(t);
      if (state.stopped) return true;
      again = ran = true;
    }
    if (!again) again = unthrottle(first, end) || converge(first, end);
  }
  if (ran && state.request->count) counters_flush();
  return ran;
}

void deadlock(Block& block) {
  u32 barrier = 0, exchange = 0, barrier_line = 0, exchange_line = 0;
  Thread* waiting = nullptr;
  for (Thread& t : block.threads) {
    if (t.state == AT_BARRIER) barrier++, barrier_line = t.wait_line, waiting = &t;
    if (t.state == AT_EXCHANGE) exchange++, exchange_line = t.wait_line, waiting = waiting ? waiting : &t;
  }
  u32 line = barrier ? barrier_line : exchange_line;
  report(DEADLOCKED, waiting, line, barrier && exchange ? exchange_line : 0,
         "%u threads wait at a barrier and %u at a warp collective that the others never reach", barrier, exchange);
  state.stopped = true;
  state.status = DEADLOCK;
}

bool out_of_time() {
  state.launch.fuel = FUEL;
  state.steps += FUEL;
  u64 limit = state.request->step_limit;
  if (now_s() <= state.deadline && (limit == 0 || state.steps <= limit)) return false;
  state.status = TIMED_OUT;
  state.stopped = true;
  return true;
}

enum Progress { FINISHED, STALLED };

Progress run_block(Block& block) {
  if (!state.launch.fibres) {
    run(&block.threads[0]);
    return FINISHED;
  }
  std::vector<u64> warps(block.warps.size());
  for (block.quiet_passes = 0;;) {
    std::iota(warps.begin(), warps.end(), 0);
    order(warps);
    state.progressed = false;
    bool ran = false, spinning = false;
    for (u64 w : warps) {
      ran |= run_warp(block, (u32)w);
      if (state.stopped) return FINISHED;
    }
    if (block.alive == 0) return FINISHED;
    for (Thread& t : block.threads)
      if (t.state == SPINNING) t.state = READY, spinning = true;
    if (!ran && !spinning) {
      deadlock(block);
      return FINISHED;
    }
    block.quiet_passes = state.progressed ? 0 : block.quiet_passes + 1;
    if (block.quiet_passes > QUIET_PASSES) {
      return out_of_time() ? FINISHED : STALLED;
    }
  }
}

void finish(Block& block) {
  state.reply->blocks_run++;
  state.reply->threads_run += block.threads.size();
  if (state.request->count) counters_block_end(block);
}

std::deque<Block> pool;  // kept between launches: their stacks are warm

void run_blocks() {
  const Request& r = *state.request;
  std::vector<u64> pending(r.blocks, r.blocks + (r.blocks ? r.blocks_count : 0));
  order(pending);
  std::vector<Block*> idle, resident;
  for (Block& block : pool) idle.push_back(&block);
  u64 next = 0, count = (u64)state.launch.block[0] * state.launch.block[1] * state.launch.block[2];
  auto start = [&] {
    if (idle.empty()) idle.push_back(&pool.emplace_back());
    Block* block = idle.back();
    idle.pop_back();
    resident.push_back(block);
    u64 linear = r.blocks ? pending[next] : r.order == BACKWARD ? r.blocks_count - 1 - next : next;
    next++;
    make_block(*block, linear);
    // A kernel without loops looks at the clock here only.
    state.launch.fuel -= (i64)count;
    if (state.launch.fuel < 0) out_of_time();
  };
  if (r.cooperative)
    while (next < r.blocks_count && !state.stopped) start();
  while (!state.stopped && (next < r.blocks_count || !resident.empty())) {
    bool room = (resident.size() + 1) * count <= RESIDENT_THREADS;
    if (next < r.blocks_count && (resident.empty() || room)) start();
    for (size_t i = resident.size(); !state.stopped && i-- > 0;) {
      if (run_block(*resident[i]) == STALLED) continue;
      if (!state.stopped) finish(*resident[i]);
      idle.push_back(resident[i]);
      resident.erase(resident.begin() + (long)i);
    }
  }
}

}  // namespace

void out_of_memory() {
  state.status = NO_ADDRESS_SPACE;
  state.stopped = true;
}

double now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void suspend(Thread* t) { optiml_switch(&t->stack_pointer, state.scheduler); }

void stop(u32 status) {
  state.status = status;
  state.stopped = true;
  suspend(state.current);
  __builtin_trap();
}

void report(u32 kind, Thread* t, u32 line, u32 other_line, const char* format, ...) {
  Reply& reply = *state.reply;
  if (kind == OUT_OF_BOUNDS || kind == MISALIGNED) state.status = FAULT;
  for (u32 i = 0; i < reply.findings_count; i++) {
    const Finding& f = reply.findings[i];
    if (f.kind == kind && f.line == line && f.other_line == other_line) return;
  }
  if (reply.findings_count == FINDINGS_MAX) return;
  Finding& f = reply.findings[reply.findings_count++];
  f.kind = kind, f.line = line, f.other_line = other_line;
  if (t) memcpy(f.block, t->ctaid, sizeof f.block), memcpy(f.thread, t->tid, sizeof f.thread);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(f.message, sizeof f.message, format, arguments);
  va_end(arguments);
}

}  // namespace optiml

using namespace optiml;

extern "C" {

void rt_tick(Thread* t) {
  bool over = out_of_time();
  // A loop may wait for another thread without looking like it.
  bool turn = state.launch.fibres && ++t->ticks % TICKS_PER_TURN == 0;
  if (!over && turn) t->state = SPINNING, state.progressed = true;
  if (over || turn) suspend(t);
}

void rt_spin(Thread* t) {
  if (!state.launch.fibres) return;
  if (UNLIKELY(--state.launch.fuel < 0)) rt_tick(t);
  t->state = SPINNING;
  suspend(t);
}

void rt_exit(Thread* t) {
  thread_ended(t);
  suspend(t);
  __builtin_trap();
}

void rt_stack_overflow(Thread* t) {
  report(OUT_OF_BOUNDS, t, 0, 0, "the thread's stack overflows");
  stop(FAULT);
}

void rt_trap(Thread* t, u32 line, const char* what) {
  (void)t;
  state.reply->trap_line = line;
  strncpy(state.reply->trap, what, sizeof state.reply->trap - 1);
  stop(TRAP);
}

u64 rt_clock(Thread*) { return (u64)(now_s() * 1e9); }
u64 rt_global_timer(Thread*) { return (u64)(now_s() * 1e9); }

extern const Module optiml_module;

// Runs one launch. The caller has checked sizes; nothing here throws.
void optiml_launch(Request* request, Reply* reply) {
  static u8 workspace[GRID_WORKSPACE_BYTES] __attribute__((aligned(256)));
  state = State{};
  state.module = &optiml_module;
  state.entry = &optiml_module.entries[request->entry];
  state.request = request, state.reply = reply;
  state.checked = request->check || request->count;
  state.random = request->seed * 2 + 0x9e3779b97f4a7c15ull;
  state.deadline = now_s() + request->time_limit_s;
  Launch& launch = state.launch;
  memcpy(launch.block, request->block, sizeof launch.block);
  memcpy(launch.grid, request->grid, sizeof launch.grid);
  launch.params = request->params, launch.params_bytes = request->params_bytes;
  launch.fuel = FUEL;
  launch.fibres = state.entry->fibres || request->count;
  memset(workspace, 0, sizeof workspace);
  launch.grid_workspace = request->cooperative ? (u64)workspace : 0;
  for (u32 i = 0; i < optiml_module.site_count; i++) optiml_module.sites[i].limit = 0;
  if (request->check) checker_launch();
  if (request->count) counters_launch();
  if (!state.stopped) run_blocks();
  reply->status = state.status;
}

// Gives back what launches keep for the next one; the module is unloaded afterwards.
void optiml_close() {
  for (Block& block : pool) unmake_block(block);
  pool.clear();
  checker_close();
  counters_close();
}

void optiml_place_module(u64 address) { *optiml_module.memory = address; }
}
