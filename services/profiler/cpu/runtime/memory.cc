// Finds what an address belongs to, reports what it must not touch, and carries out asynchronous copies.
#include <deque>
#include <unordered_map>

#include "access.h"
#include "executor.h"

namespace optiml {
namespace {

// Reads of memory that is not there give ones: a NaN, or an index that is out of bounds again.
alignas(64) u8 sink[64];

u8* sunk() {
  memset(sink, 0xff, sizeof sink);
  return sink;
}

struct Copy {
  Site *from, *part, *to;
  u64 shared, global;
  u32 filled;
  bool checked;
};
struct Copies {
  std::deque<std::vector<Copy>> groups;
  std::vector<Copy> open;
};
std::unordered_map<Thread*, Copies> copies;

void* address_of(Thread* t, Site* site, u64 a, bool checked) {
  return checked ? rt_access(t, site, a, nullptr) : rt_resolve(t, site, a);
}

void carry_out(Thread* t, const Copy& c) {
  u8 bytes[16] = {};
  if (c.filled >= c.to->size) {
    memcpy(bytes, address_of(t, c.from, c.global, c.checked), c.to->size);
  } else {
    for (u32 i = 0; i < c.filled; i++) bytes[i] = *(u8*)address_of(t, c.part, c.global + i, c.checked);
  }
  void* target = c.checked ? rt_access(t, c.to, c.shared, bytes) : rt_resolve(t, c.to, c.shared);
  memcpy(target, bytes, c.to->size);
}

enum Where { IN_GLOBAL, IN_SHARED, WORKSPACE, ELSEWHERE, NOWHERE };
struct Place {
  Where where;
  u8* host;
  const Allocation* allocation;
};

Place find(Thread* t, Site* site, u64 a) {
  if (site->space == SHARED) {
    u64 offset = a - SHARED_START;
    if (offset >= t->shared_bytes || offset + site->size > t->shared_bytes) return {NOWHERE, nullptr, nullptr};
    return {IN_SHARED, t->shared + a, nullptr};
  }
  if (const Allocation* found = find_allocation(a)) {
    if (a + site->size > found->base + found->bytes) return {NOWHERE, nullptr, found};
    return {IN_GLOBAL, (u8*)a, found};
  }
  if (site->space == GENERIC) {
    u64 offset = a - (u64)t->shared - SHARED_START;
    if (offset < t->shared_bytes && offset + site->size <= t->shared_bytes) return {IN_SHARED, (u8*)a, nullptr};
    u64 local = a - (u64)t->local_low, bytes = (u64)(t->local_top - t->local_low);
    if (local < bytes && local + site->size <= bytes) return {ELSEWHERE, (u8*)a, nullptr};
  }
  u64 workspace = a - t->launch->grid_workspace;
  if (t->launch->grid_workspace && workspace + site->size <= GRID_WORKSPACE_BYTES) return {WORKSPACE, (u8*)a, nullptr};
  u64 parameter = a - (u64)t->launch->params;
  if (site->access == LOAD && (site->space == GENERIC || site->space == CONSTANT) &&
      parameter < t->launch->params_bytes && parameter + site->size <= t->launch->params_bytes)
    return {ELSEWHERE, (u8*)a, nullptr};
  return {NOWHERE, nullptr, nullptr};
}

const char* verb(const Site* site) {
  return site->access == LOAD ? "read" : site->access == STORE ? "write" : "atomic operation";
}

// Where an address lies in relation to the nearest allocation, for the message.
void describe_outside(Thread* t, Site* site, u64 a) {
  if (site->space == SHARED || a - (u64)t->shared < SHARED_START + SHARED_BYTES_MAX) {
    i64 offset = (i64)(site->space == SHARED ? a : a - (u64)t->shared) - SHARED_START;
    report(OUT_OF_BOUNDS, t, site->line, 0, "%s of %u bytes at byte %lld of %llu bytes of shared memory", verb(site),
           site->size, (long long)offset, (unsigned long long)t->shared_bytes);
    return;
  }
  const Request& r = *state.request;
  const Allocation* nearest = nullptr;
  u64 distance = ~0ull;
  for (u64 i = 0; i < r.allocations_count; i++) {
    const Allocation& x = r.allocations[i];
    u64 d = a < x.base ? x.base - a : a - (x.base + x.bytes - 1);
    if (d < distance) distance = d, nearest = &x;
  }
  if (nearest && distance < 1ull << 32)
    report(OUT_OF_BOUNDS, t, site->line, 0, "%s of %u bytes at byte %lld of a buffer of %llu bytes", verb(site),
           site->size, (long long)(a - nearest->base), (unsigned long long)nearest->bytes);
  else
    report(OUT_OF_BOUNDS, t, site->line, 0, "%s of %u bytes at an address that is in no buffer", verb(site),
           site->size);
}

bool misaligned(Thread* t, Site* site, u64 a) {
  if (!(a & (site->size - 1u))) return false;
  report(MISALIGNED, t, site->line, 0, "%s of %u bytes at an address that is no multiple of %u", verb(site), site->size,
         site->size);
  return true;
}

}  // namespace

const Allocation* find_allocation(u64 address) {
  const Request& r = *state.request;
  u64 low = 0, high = r.allocations_count;
  while (low < high) {
    u64 middle = (low + high) / 2;
    if (r.allocations[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  if (low == 0) return nullptr;
  const Allocation& a = r.allocations[low - 1];
  return address - a.base < a.bytes ? &a : nullptr;
}

void async_forget(Thread* t) {
  if (!copies.empty()) copies.erase(t);
}

}  // namespace optiml

using namespace optiml;

extern "C" {

void* rt_resolve(Thread* t, Site* site, u64 a) {
  if (misaligned(t, site, a)) return sunk();
  Place place = find(t, site, a);
  if (place.where == NOWHERE) {
    describe_outside(t, site, a);
    return sunk();
  }
  if (place.where == IN_GLOBAL && place.allocation->bytes >= site->size) {
    site->low = place.allocation->base;
    site->limit = place.allocation->bytes - site->size + 1;
  }
  return place.host;
}

void* rt_access(Thread* t, Site* site, u64 a, const void* value) {
  if (misaligned(t, site, a)) return sunk();
  Place place;
  if (site->space != SHARED && a - site->low < site->limit) place = {IN_GLOBAL, (u8*)a, nullptr};
  else place = find(t, site, a);
  if (place.where == NOWHERE) {
    describe_outside(t, site, a);
    return sunk();
  }
  if (place.where == WORKSPACE && state.request->check && site->order != WEAK) checker_synchronise(t, site, place.host);
  if (place.where == WORKSPACE || place.where == ELSEWHERE) return place.host;
  bool shared = place.where == IN_SHARED;
  if (place.allocation) {
    site->low = place.allocation->base;
    site->limit = place.allocation->bytes - site->size + 1;
  }
  // The race and count models ignore constant memory: nothing writes it.
  if (site->space == CONSTANT) return place.host;
  if (state.request->count) counters_access(t, site, shared ? (u64)(place.host - t->shared) : a, shared);
  if (state.request->check) {
    u64 address = shared ? (u64)(place.host - t->shared) : a;
    checker_access(t, site, address, place.host, shared, place.allocation, value);
  }
  return place.host;
}

void rt_local_fault(Thread* t, u64 a, u32 bytes, u32 line) {
  u64 offset = a - (u64)t->local_low;
  if (offset < (u64)(t->local_top - t->local_low) && (a & (bytes - 1)))
    report(MISALIGNED, t, line, 0, "access of %u bytes to local memory at an address that is no multiple of it", bytes);
  else
    report(OUT_OF_BOUNDS, t, line, 0, "access of %u bytes at byte %lld of %lld bytes of local memory", bytes,
           (long long)offset, (long long)(t->local_top - t->local_low));
}

void rt_fence(Thread* t) { t->fences++; }

void rt_async_copy(Thread* t, Site* from, Site* part, Site* to, u64 shared, u64 global, u32 filled, bool checked) {
  if (checked && state.request->check) checker_issue(t, to, shared);
  copies[t].open.push_back(Copy{from, part, to, shared, global, filled, checked});
}

void rt_async_commit(Thread* t) {
  Copies& c = copies[t];
  c.groups.push_back(std::move(c.open));
  c.open.clear();
}

void rt_async_wait(Thread* t, u32 groups) {
  auto found = copies.find(t);
  if (found == copies.end()) return;
  Copies& c = found->second;
  if (groups == ~0u) {
    rt_async_commit(t);
    groups = 0;
  }
  while (c.groups.size() > groups) {
    std::vector<Copy> oldest = std::move(c.groups.front());
    c.groups.pop_front();
    for (const Copy& copy : oldest) carry_out(t, copy);
  }
}
}
