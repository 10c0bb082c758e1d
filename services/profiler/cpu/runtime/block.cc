// Makes blocks ready to run: threads, fibres, poisoned shared memory.
#include <sys/mman.h>

#include "checker.h"
#include "fibres.h"

namespace optiml {
namespace {

u32 next_serial = 1;

u8* reserve(u64 bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (u8*)p;
}

void grow(u8*& memory, u64& have, u64 need) {
  if (have >= need) return;
  if (memory) munmap(memory, have);
  memory = reserve(need);
  have = memory ? need : 0;
  if (!memory) out_of_memory();
}

void (*kernel())(Thread*) { return state.checked ? state.entry->checked : state.entry->plain; }

void fibre_main() {
  Thread* t = state.current;
  kernel()(t);
  thread_ended(t);
  suspend(t);
  __builtin_trap();
}

// Without barriers and polling all threads of a block are plain calls, one after the other, on one fibre.
void sequential_main() {
  Block& block = *state.current->block;
  auto f = kernel();
  u8* stack = block.threads[0].stack_low;
  u32 count = (u32)block.threads.size();
  for (u32 i = 0; i < count; i++) {
    Thread& t = block.threads[state.request->order == BACKWARD ? count - 1 - i : i];
    t.stack_low = stack;
    state.current = &t;
    f(&t);
    async_forget(&t);
    t.state = DONE;
  }
  block.alive = 0;
  suspend(&block.threads[0]);
  __builtin_trap();
}

}  // namespace

void thread_ended(Thread* t) {
  Block& block = *t->block;
  t->state = DONE;
  async_forget(t);
  block.alive--;
  block.warps[t->linear / WARP].alive &= ~(1u << t->lane);
  state.progressed = true;
  warp_recheck(block, t->linear / WARP);
  barriers_recheck(block);
}

void make_block(Block& block, u64 linear) {
  const Request& r = *state.request;
  u32 count = r.block[0] * r.block[1] * r.block[2];
  u32 blocks = state.checked ? state.module->block_count : 0;
  u64 local_bytes = (state.entry->local_bytes + 255) / 256 * 256;
  block.linear = linear;
  block.serial = next_serial++;
  block.alive = count;
  block.quiet_passes = 0;
  memset(block.barriers, 0, sizeof block.barriers);
  if (!block.window) block.window = reserve(SHARED_START + SHARED_BYTES_MAX);
  if (!block.window) out_of_memory();
  u64 dynamic_start = (SHARED_START + r.static_shared + r.dynamic_align - 1) / r.dynamic_align * r.dynamic_align;
  u64 shared_bytes = r.dynamic_shared ? dynamic_start - SHARED_START + r.dynamic_shared : r.static_shared;
  if (block.window) memset(block.window + SHARED_START, 0xff, shared_bytes);
  grow(block.stacks, block.stacks_bytes, STACK_BYTES * (state.launch.fibres ? count : 1));
  grow(block.locals, block.locals_bytes, local_bytes * count + 256);
  if (state.stopped) return;
  block.counts.assign((u64)blocks * count, 0);
  block.warps.resize((count + WARP - 1) / WARP);
  for (Warp& warp : block.warps) warp.alive = 0, warp.exchanges.clear();
  for (Thread& t : block.threads) async_forget(&t);  // of a launch that was ended
  block.threads.assign(count, Thread{});
  for (u32 i = 0; i < count; i++) {
    Thread& t = block.threads[i];
    t.tid[0] = i % r.block[0], t.tid[1] = i / r.block[0] % r.block[1], t.tid[2] = i / r.block[0] / r.block[1];
    t.ctaid[0] = (u32)(linear % r.grid[0]), t.ctaid[1] = (u32)(linear / r.grid[0] % r.grid[1]);
    t.ctaid[2] = (u32)(linear / r.grid[0] / r.grid[1]);
    t.linear = i, t.lane = i % WARP;
    t.launch = &state.launch, t.block = &block;
    t.shared = block.window, t.shared_bytes = shared_bytes, t.dynamic_shared = (u32)dynamic_start;
    t.block_counts = blocks ? &block.counts[(u64)blocks * i] : nullptr;
    t.local_low = t.local_top = block.locals + local_bytes * i;
    t.local_end = t.local_low + local_bytes;
    t.state = READY;
    t.stack_low = block.stacks + (state.launch.fibres ? STACK_BYTES * i : 0);
    if (state.launch.fibres) t.stack_pointer = fibre_prepare(t.stack_low, i, fibre_main);
    block.warps[i / WARP].alive |= 1u << t.lane;
  }
  if (!state.launch.fibres) block.threads[0].stack_pointer = fibre_prepare(block.stacks, 0, sequential_main);
  if (r.check) checker_block(block);
  if (r.count) counters_block();
}

void unmake_block(Block& block) {
  if (block.window) munmap(block.window, SHARED_START + SHARED_BYTES_MAX);
  if (block.stacks) munmap(block.stacks, block.stacks_bytes);
  if (block.locals) munmap(block.locals, block.locals_bytes);
  delete block.checker;
}

}  // namespace optiml
