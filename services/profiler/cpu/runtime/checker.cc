// Races and reads of what was never written.
//
// Each word of memory remembers its last write and its last reads. Two accesses race if they touch a common byte, one
// writes, not both are strong (atomic, volatile, relaxed), and nothing orders them. What orders accesses:
// - barriers: every block has a clock that each barrier and warp collective advances; a warp knows up to which time it
//   has seen each other warp;
// - fences: a strong access after a fence publishes what its thread knows under the address; a strong read of that
//   address takes it over for its whole block. (Scopes are not told apart: too narrow a fence is not found.)
// Blocks are concurrent otherwise. Two writes of one value are no race. A warp collective orders its warp as
// __syncwarp does. Bytes of one word that several threads write apart are tracked for the last writer only.
#include "checker.h"

#include <stdio.h>
#include <sys/mman.h>

#include <algorithm>

namespace optiml {
namespace {

Cell* cells;  // of the arena
u64 cells_bytes;
std::unordered_map<u64, Knowledge> published;  // by host address
u32 first_serial;

void take_over(Knowledge& into, const Knowledge& from) {
  for (const auto& [serial, known] : from) {
    Known& k = into[serial];
    k.time = std::max(k.time, known.time);
    for (const auto& [thread, fences] : known.threads) k.threads[thread] = std::max(k.threads[thread], fences);
  }
}

bool acquired(const CheckerBlock& clock, const Mark& mark) {
  auto found = clock.acquired.find(mark.serial);
  if (found == clock.acquired.end()) return false;
  if (mark.time < found->second.time) return true;
  auto thread = found->second.threads.find(mark.thread);
  return thread != found->second.threads.end() && (mark.fences < thread->second || thread->second == 65535);
}

bool concurrent(const Mark& mark, Thread* t, const Block& block, bool shared) {
  const CheckerBlock& clock = *block.checker;
  if (mark.serial < first_serial) return false;
  if (mark.serial != block.serial) return !shared && !acquired(clock, mark);
  u32 mine = t->linear / WARP, other = mark.thread / WARP, warps = (u32)block.warps.size();
  if (mark.thread == t->linear && !(mark.flags & SEVERAL_LANES)) return false;
  if (mark.time < clock.full || mark.time < clock.seen[mine * warps + other]) return false;
  return !acquired(clock, mark);
}

void race(Thread* t, Site* site, const Mark& mark, bool shared, const char* first, const char* second) {
  const Site& other = state.module->sites[mark.site];
  char who[64];
  if (mark.serial == t->block->serial) snprintf(who, sizeof who, "thread %u of the block", mark.thread);
  else snprintf(who, sizeof who, "thread %u of another block", mark.thread);
  report(RACE, t, site->line, other.line, "%s after an unordered %s by %s in %s memory", second, first, who,
         shared ? "shared" : "global");
}

void set(Mark& mark, const Mark& now) {
  bool same = mark.serial == now.serial && mark.time == now.time && mark.thread == now.thread;
  u8 mask = same ? mark.mask | now.mask : now.mask;
  u8 strong = same ? mark.flags & now.flags & IS_STRONG : now.flags;
  mark = now;
  mark.mask = mask, mark.flags = strong;
}

void set_read(Cell& cell, const Mark& now, const Block& block) {
  for (Mark& mark : cell.reads) {
    if (mark.serial != now.serial || mark.thread / WARP != now.thread / WARP) continue;
    bool same_time = mark.time == now.time;
    bool several = same_time && (mark.thread != now.thread || (mark.flags & SEVERAL_LANES));
    u8 mask = same_time ? mark.mask | now.mask : now.mask;
    u8 strong = same_time ? mark.flags & now.flags & IS_STRONG : now.flags & IS_STRONG;
    mark = now;
    mark.mask = mask, mark.flags = strong | (several ? SEVERAL_LANES : 0);
    return;
  }
  if (cell.reads[0].serial != 0 && cell.reads[0].serial != block.serial) cell.foreign = cell.reads[0];
  cell.reads[1] = cell.reads[0];
  cell.reads[0] = now;
}

void touch(Cell& cell, Thread* t, Site* site, const Mark& now, bool shared, bool same_value) {
  const Block& block = *t->block;
  bool strong = now.flags & IS_STRONG, reads = site->access != STORE, writes = site->access != LOAD;
  auto clash = [&](const Mark& mark) {
    return (mark.mask & now.mask) && !(strong && (mark.flags & IS_STRONG)) && concurrent(mark, t, block, shared);
  };
  if (clash(cell.write) && !(writes && !reads && same_value))
    race(t, site, cell.write, shared, "write", writes ? "write" : "read");
  if (writes) {
    for (const Mark& mark : cell.reads)
      if (clash(mark)) race(t, site, mark, shared, "read", "write");
    if (!shared && clash(cell.foreign)) race(t, site, cell.foreign, shared, "read", "write");
    set(cell.write, now);
  } else {
    set_read(cell, now, block);
  }
}

Mark mark_now(Thread* t, Site* site) {
  Mark now{};
  now.serial = t->block->serial, now.time = t->block->checker->now, now.thread = (u16)t->linear;
  now.fences = (u16)std::min(t->fences, 65535u);
  now.site = (u16)(site - state.module->sites);
  now.flags = site->order != WEAK ? IS_STRONG : 0;
  return now;
}

// `first` is the offset of the access in shared memory or in the arena.
void touch_words(Thread* t, Site* site, u64 first, Mark now, bool shared, bool same_value) {
  Cell* base = shared ? t->block->checker->cells.data() : cells;
  u64 last = first + site->size - 1;
  for (u64 word = first / 4; word <= last / 4; word++) {
    u32 from = word == first / 4 ? first % 4 : 0, to = word == last / 4 ? last % 4 : 3;
    now.mask = (u8)((0xfu << from) & (0xfu >> (3 - to)));
    touch(base[word], t, site, now, shared, same_value);
  }
}

void uninitialised(Thread* t, Site* site, u64 address, bool shared, const Allocation* allocation) {
  u8* written = shared ? t->block->checker->written.data() : state.request->written;
  u64 base = shared ? SHARED_START : state.request->arena;
  for (u32 i = 0; i < site->size; i++) {
    u64 bit = address - base + i;
    if (site->access != STORE && !(written[bit / 8] >> (bit % 8) & 1) && !(allocation && allocation->initialised)) {
      report(UNINITIALISED, t, site->line, 0, "%s of %s memory that was never written",
             site->access == LOAD ? "read" : "atomic operation", shared ? "shared" : "global");
      return;
    }
    if (site->access != LOAD) written[bit / 8] |= (u8)(1u << (bit % 8));
  }
}

}  // namespace

void checker_synchronise(Thread* t, Site* site, u8* host) {
  CheckerBlock& clock = *t->block->checker;
  u64 key = (u64)host;
  if (site->access != STORE && !published.empty()) {
    auto found = published.find(key);
    if (found != published.end()) take_over(clock.acquired, found->second);
  }
  if ((site->order & 4) != 0) t->fences++;
  if (site->access == LOAD || t->fences == 0) return;
  Knowledge& place = published[key];
  take_over(place, clock.acquired);
  Known& own = place[t->block->serial];
  own.time = std::max(own.time, clock.full);
  u16& fences = own.threads[(u16)t->linear];
  fences = std::max(fences, (u16)std::min(t->fences, 65535u));
}

void checker_launch() {
  u64 top = 0;
  const Request& r = *state.request;
  for (u64 i = 0; i < r.allocations_count; i++)
    top = std::max(top, r.allocations[i].base + r.allocations[i].bytes - r.arena);
  u64 need = (top / 4 + 16) * sizeof(Cell);
  if (need > cells_bytes) {
    if (cells) munmap(cells, cells_bytes);
    void* p = mmap(nullptr, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cells = p == MAP_FAILED ? nullptr : (Cell*)p;
    cells_bytes = cells ? need : 0;
    if (!cells) out_of_memory();
  }
  published.clear();
  first_serial = 0;
}

void checker_close() {
  if (cells) munmap(cells, cells_bytes);
  cells = nullptr, cells_bytes = 0;
}

void checker_block(Block& block) {
  if (first_serial == 0) first_serial = block.serial;
  if (!block.checker) block.checker = new CheckerBlock;  // lives as long as the block, which is kept for reuse
  CheckerBlock& clock = *block.checker;
  clock.now = clock.full = 1;
  clock.seen.assign(block.warps.size() * block.warps.size(), 0);
  clock.acquired.clear();
  memset(clock.arrived, 0, sizeof clock.arrived);
  u64 bytes = block.threads[0].shared_bytes;
  clock.cells.resize(std::max<u64>(clock.cells.size(), bytes / 4 + 1));
  clock.written.assign(bytes / 8 + 1, 0);
}

void checker_arrive(Block& block, u32 id, u32 warp) {
  CheckerBlock& clock = *block.checker;
  u32 n = (u32)block.warps.size();
  u32* known = clock.arrived[id];
  for (u32 other = 0; other < n; other++) known[other] = std::max(known[other], clock.seen[warp * n + other]);
  known[warp] = ++clock.now;
}

void checker_barrier(Block& block, u32 id, bool full, const std::vector<u32>& warps) {
  CheckerBlock& clock = *block.checker;
  u32 n = (u32)block.warps.size();
  clock.now++;
  if (full) {
    clock.full = clock.now;
    return;
  }
  for (u32 w : warps)
    for (u32 other = 0; other < n; other++)
      clock.seen[w * n + other] = std::max(clock.seen[w * n + other], clock.arrived[id][other]);
  memset(clock.arrived[id], 0, sizeof clock.arrived[id]);
}

void checker_warp(Block& block, u32 warp) {
  CheckerBlock& clock = *block.checker;
  clock.seen[warp * block.warps.size() + warp] = ++clock.now;
}

void checker_access(Thread* t, Site* site, u64 address, u8* host, bool shared, const Allocation* allocation,
                    const void* value) {
  if (!shared && !allocation) allocation = find_allocation(address);
  uninitialised(t, site, address, shared, shared ? nullptr : allocation);
  Mark now = mark_now(t, site);
  if (site->order != WEAK) checker_synchronise(t, site, host);
  bool same_value = value && memcmp(value, host, site->size) == 0;
  touch_words(t, site, shared ? address - SHARED_START : address - state.request->arena, now, shared, same_value);
}

void checker_issue(Thread* t, Site* site, u64 address) {
  if (address - SHARED_START + site->size <= t->shared_bytes)
    touch_words(t, site, address - SHARED_START, mark_now(t, site), true, false);
}

}  // namespace optiml
