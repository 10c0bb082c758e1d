// Block barriers and warp collectives.
#include "executor.h"

namespace optiml {
namespace {

u32 exited_beside_waiters(Block& block, u32 id) {
  u32 exited = 0;
  for (u32 w = 0; w < block.warps.size(); w++) {
    u32 waiting = 0, done = 0;
    for (u32 i = w * WARP; i < (w + 1) * WARP; i++) {
      if (i >= block.threads.size() || block.threads[i].state == DONE) done++;
      else waiting += block.threads[i].state == AT_BARRIER && block.threads[i].barrier_id == id;
    }
    if (waiting) exited += done;
  }
  return exited;
}

bool complete(Block& block, u32 id) {
  Barrier& b = block.barriers[id];
  if (b.arrived == 0) return false;
  // Without a count the barrier waits for all threads that have not returned. With one it waits for just so many; the
  // hardware counts warps, so lanes that are gone or do not exist count where their warp waits.
  if (b.count == 0) return b.arrived >= block.alive;
  return b.arrived >= b.count || b.arrived + exited_beside_waiters(block, id) >= b.count;
}

void release(Block& block, u32 id) {
  Barrier& b = block.barriers[id];
  Thread* one = nullptr;
  std::vector<u32> warps;
  for (Thread& t : block.threads) {
    if (t.state != AT_BARRIER || t.barrier_id != id) continue;
    t.state = READY;
    t.result = t.result == 1 ? b.popc : t.result == 2 ? b.all : b.any;
    one = &t;
    if (warps.empty() || warps.back() != t.linear / WARP) warps.push_back(t.linear / WARP);
  }
  if (b.mixed)
    report(DIVERGENT_BARRIER, one, b.line, b.other_line, "threads of one block wait at different barriers");
  u32 gone = (u32)block.threads.size() - block.alive;
  if (b.count == 0 && gone && state.request->check)
    report(DIVERGENT_BARRIER, one, b.line, 0, "%u threads of the block had returned before the barrier", gone);
  if (state.request->check) checker_barrier(block, id, b.count == 0, warps);
  b = Barrier{};
  state.progressed = true;
}

void arrive(Thread* t, u32 id, u32 site, u32 line, u32 count, u32 predicate) {
  Block& block = *t->block;
  Barrier& b = block.barriers[id];
  if (b.arrived == 0) {
    b.site = site, b.line = line, b.count = count, b.all = 1;
  } else if (b.site != site && count == 0 && !b.mixed) {  // with a count, roles of a pipeline meet from several places
    b.mixed = true, b.other_line = line;
  }
  b.arrived++;
  b.popc += predicate, b.all &= predicate, b.any |= predicate;
  if (count != 0 && state.request->check) checker_arrive(block, id, t->linear / WARP);
}

void finish_exchange(Block& block, u32 warp, Exchange& e) {
  Warp& w = block.warps[warp];
  if (e.arrived == 0 || (e.arrived & w.alive) != (e.mask & w.alive)) return;
  e.lanes[e.generation & 1] = e.arrived;
  for (u32 i = 0; i < WARP; i++)
    if (e.arrived >> i & 1) block.threads[warp * WARP + i].state = READY;
  if (e.arrived == w.alive && state.request->count) counters_flush();
  e.arrived = 0;
  e.generation++;
  state.progressed = true;
  if (state.request->check) checker_warp(block, warp);
}

}  // namespace

void barriers_recheck(Block& block) {
  for (u32 id = 0; id < BARRIERS; id++)
    if (complete(block, id)) release(block, id);
}

void warp_recheck(Block& block, u32 warp) {
  for (Exchange& e : block.warps[warp].exchanges) finish_exchange(block, warp, e);
}

}  // namespace optiml

using namespace optiml;

extern "C" {

u32 rt_barrier(Thread* t, u32 site, u32 line, u32 id, u32 count, u32 reduction, u32 predicate) {
  if (id >= BARRIERS) rt_trap(t, line, "barrier number above 15");
  Block& block = *t->block;
  if (UNLIKELY(--state.launch.fuel < 0)) rt_tick(t);
  t->state = AT_BARRIER, t->barrier_id = id, t->wait_site = site, t->wait_line = line, t->result = reduction;
  arrive(t, id, site, line, count, predicate);
  if (complete(block, id)) release(block, id);
  if (t->state != READY) suspend(t);
  return t->result;
}

void rt_barrier_arrive(Thread* t, u32 site, u32 line, u32 id, u32 count) {
  if (id >= BARRIERS) rt_trap(t, line, "barrier number above 15");
  arrive(t, id, site, line, count, 0);
  if (complete(*t->block, id)) release(*t->block, id);
}

u32 rt_exchange(Thread* t, u32 line, u32 kind, u32 mask, u64 value, u64* all) {
  Block& block = *t->block;
  u32 warp = t->linear / WARP;
  if (UNLIKELY(--state.launch.fuel < 0)) rt_tick(t);
  if (!(mask >> t->lane & 1)) {
    report(DIVERGENT_BARRIER, t, line, 0, "a lane calls a warp collective whose mask does not have it");
    mask = 1u << t->lane;
  }
  auto& exchanges = block.warps[warp].exchanges;
  size_t k = 0;
  while (k < exchanges.size() && (exchanges[k].mask != mask || exchanges[k].kind != kind)) k++;
  if (k == exchanges.size()) exchanges.push_back(Exchange{mask, kind, 0, 0, {}, {}});
  u32 buffer = exchanges[k].generation & 1;
  if (exchanges[k].arrived == 0) memset(exchanges[k].values[buffer], 0xff, sizeof exchanges[k].values[buffer]);
  exchanges[k].values[buffer][t->lane] = value;
  exchanges[k].arrived |= 1u << t->lane;
  t->state = AT_EXCHANGE, t->wait_line = line;
  finish_exchange(block, warp, exchanges[k]);
  if (t->state != READY) suspend(t);
  const Exchange& e = block.warps[warp].exchanges[k];
  if (all) memcpy(all, e.values[buffer], sizeof e.values[buffer]);
  return e.lanes[buffer];
}

u32 rt_active_mask(Thread* t, u32 site) {
  t->state = CONVERGING, t->wait_site = site;
  suspend(t);
  return t->result;
}
}
