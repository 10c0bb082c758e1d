// Memory counters, one warp request at a time as the hardware counts them.
//
// Lanes run one after the other, so requests are put together afterwards: the k-th execution of an instruction by each
// lane since the last barrier (or collective of the whole warp) is one request. That is what lockstep gives for
// structured code. A lane that gets far ahead waits for the others. Requests are then replayed in the order in which
// their first lane made them, which is program order.
//
// Model of the caches: each block starts with an empty L1 of 128 KiB, 4-way, 128-byte lines of four 32-byte sectors,
// loads allocate, stores write through. L2 is unlimited over the launch: DRAM reads are the distinct sectors that are
// loaded before they are written, DRAM writes the distinct sectors written, a lower bound.
#include "counters.h"

#include <sys/mman.h>

#include <algorithm>

#include "executor.h"
#include "traffic.h"

namespace optiml {
namespace {

constexpr u32 WINDOW = 1024;  // executions of one instruction that a lane may be ahead
constexpr u32 L1_SETS = 256, L1_WAYS = 4;

struct WarpRequest {
  u32 mask;
  u64 address[WARP];
};
struct Window {
  u32 counts[WARP];
  std::vector<WarpRequest> requests;
  u32 used;
};
struct Line {
  u64 tag;
  u32 epoch, age;
  u8 sectors;
};

std::vector<Window> windows;  // two for each site: global, shared
std::vector<u32> active;
std::vector<std::pair<u32, u32>> sequence;  // window and place of each request, as they were made
Line l1[L1_SETS][L1_WAYS];
u32 l1_epoch, l1_age;
u8 *loaded, *stored;  // bitmaps over the arena, a bit a sector
u64 bitmap_bytes;

u64& counter(u32 which) { return state.reply->memory[which]; }

bool l1_miss(u64 sector) {
  u64 line = sector / 4;
  u8 bit = (u8)(1u << (sector % 4));
  Line* set = l1[(line ^ line >> 8 ^ line >> 16) % L1_SETS];
  Line* oldest = set;
  l1_age++;
  for (Line* way = set; way < set + L1_WAYS; way++) {
    if (way->epoch == l1_epoch && way->tag == line) {
      way->age = l1_age;
      bool miss = !(way->sectors & bit);
      way->sectors |= bit;
      return miss;
    }
    if (way->epoch != l1_epoch || (oldest->epoch == l1_epoch && way->age < oldest->age)) oldest = way;
  }
  *oldest = Line{line, l1_epoch, l1_age, bit};
  return true;
}

bool test_and_set(u8* bitmap, u64 bit) {
  u8 mask = (u8)(1u << (bit % 8));
  bool was = bitmap[bit / 8] & mask;
  bitmap[bit / 8] |= mask;
  return was;
}

void touch_sector(u64 sector, u8 access) {
  u64 index = sector - state.request->arena / 32;
  if (access != STORE) {
    if (access == ATOMIC || l1_miss(sector)) {
      counter(L2_READ_SECTORS)++;
      if (index / 8 < bitmap_bytes && !(stored[index / 8] >> (index % 8) & 1) && !test_and_set(loaded, index))
        counter(DRAM_READ_SECTORS)++;
    }
  }
  if (access != LOAD) {
    counter(L2_WRITE_SECTORS)++;
    if (index / 8 < bitmap_bytes && !test_and_set(stored, index)) counter(DRAM_WRITE_SECTORS)++;
  }
}

void count_global(const Site& site, const WarpRequest& r) {
  u64 sectors[WARP];
  u32 n = 0;
  bool sorted = true;
  for (u32 rest = r.mask; rest; rest &= rest - 1) {
    u64 sector = r.address[__builtin_ctz(rest)] / 32;
    if (n && sectors[n - 1] == sector) continue;
    if (n && sectors[n - 1] > sector) sorted = false;
    sectors[n++] = sector;
  }
  if (!sorted) {
    std::sort(sectors, sectors + n);
    n = (u32)(std::unique(sectors, sectors + n) - sectors);
  }
  u32 base = GLOBAL_LOAD_REQUESTS + 2 * site.access;
  counter(base)++;
  counter(base + 1) += n;
  for (u32 i = 0; i < n; i++) touch_sector(sectors[i], site.access);
  const Allocation* allocation = find_allocation(r.address[__builtin_ctz(r.mask)]);
  if (allocation)
    traffic_request(state.current->linear / WARP, site.access, sectors, n,
                    state.reply->traffic + (u64)allocation->number * TRAFFIC_COUNTERS);
}

// Wavefronts of the lanes in `mask`: the most distinct words that one of the 32 banks must give.
u32 wavefronts(const WarpRequest& r, u32 mask, u32 words) {
  u64 seen[WARP][WARP];
  u8 used[WARP] = {};
  u32 most = 0;
  for (; mask; mask &= mask - 1) {
    u64 first = r.address[__builtin_ctz(mask)] / 4;
    for (u32 w = 0; w < words; w++) {
      u64 word = first + w;
      u32 bank = (u32)(word % 32), n = used[bank], k = 0;
      while (k < n && seen[bank][k] != word) k++;
      if (k < n) continue;
      seen[bank][n] = word;
      used[bank] = (u8)(n + 1);
      most = std::max(most, n + 1);
    }
  }
  return most;
}

// Whether every active lane of `mask` reads what its neighbour at distance `flip` reads.
bool paired(const WarpRequest& r, u32 mask, u32 flip) {
  for (u32 rest = mask; rest; rest &= rest - 1) {
    u32 lane = (u32)__builtin_ctz(rest), other = lane ^ flip;
    if ((mask >> other & 1) && r.address[lane] != r.address[other]) return false;
  }
  return true;
}

// 8 and 16 bytes a lane are served for half and quarter warps. Two neighbouring parts of a load become one where lanes
// read in pairs the same address. Read off an H200 with Nsight Compute, for 240 patterns.
void count_shared(const Site& site, const WarpRequest& r) {
  u32 words = std::max(1u, site.size / 4u), lanes = words == 1 ? 32 : words == 2 ? 16 : 8;
  u32 total = 0, ideal = 0;
  auto serve = [&](u32 part) {
    if (!part) return;
    total += wavefronts(r, part, words);
    ideal++;
  };
  for (u32 from = 0; from < WARP; from += 2 * lanes) {
    u32 low = r.mask & (u32)(((1ull << lanes) - 1) << from);
    u32 high = lanes == 32 ? 0 : r.mask & (u32)(((1ull << lanes) - 1) << (from + lanes));
    bool merged = site.access == LOAD && high && (paired(r, low | high, 1) || paired(r, low | high, 2));
    serve(merged ? low | high : low);
    if (!merged) serve(high);
  }
  u32 kind = site.access;
  counter(SHARED_LOAD_WAVEFRONTS + 2 * kind) += total;
  counter(SHARED_LOAD_CONFLICTS + 2 * kind) += total - ideal;
  counter(SHARED_LOAD_REQUESTS + kind)++;
}

}  // namespace

void counters_launch() {
  windows.clear();
  windows.resize(2 * (u64)state.module->site_count);
  active.clear();
  sequence.clear();
  traffic_launch(state.request->l1_lines_of_a_warp);
  u64 need = state.request->arena_bytes / 32 / 8 + 1;
  counters_close();
  auto map = [&] {
    void* p = mmap(nullptr, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : (u8*)p;
  };
  loaded = map(), stored = map();
  bitmap_bytes = loaded && stored ? need : 0;
  if (!bitmap_bytes) out_of_memory();
}

void counters_close() {
  if (loaded) munmap(loaded, bitmap_bytes);
  if (stored) munmap(stored, bitmap_bytes);
  loaded = stored = nullptr, bitmap_bytes = 0;
}

void counters_block() {
  l1_epoch++;
  traffic_block();
}

void counters_access(Thread* t, Site* site, u64 address, bool shared) {
  u32 index = (u32)(site - state.module->sites) * 2 + shared;
  Window& window = windows[index];
  if (UNLIKELY(window.counts[t->lane] >= WINDOW)) {
    t->state = THROTTLED;
    suspend(t);
  }
  u32 k = window.counts[t->lane]++;
  if (k >= window.used) {
    if (window.used == 0) active.push_back(index);
    window.used = k + 1;
    if (window.requests.size() < window.used) window.requests.resize(std::max<size_t>(4, 2 * window.used));
    window.requests[k].mask = 0;
    sequence.push_back({index, k});
  }
  WarpRequest& r = window.requests[k];
  r.mask |= 1u << t->lane;
  r.address[t->lane] = address;
}

void counters_flush() {
  for (auto [index, k] : sequence) {
    Site site = state.module->sites[index / 2];
    const WarpRequest& request = windows[index].requests[k];
    if (site.merged == MERGED_FOLLOWER) continue;
    if (site.merged) site.size = site.merged;
    index & 1 ? count_shared(site, request) : count_global(site, request);
  }
  sequence.clear();
  for (u32 index : active) {
    windows[index].used = 0;
    memset(windows[index].counts, 0, sizeof windows[index].counts);
  }
  active.clear();
}

// A warp executes a basic block as often as its busiest lane: exact for structured divergence.
void counters_block_end(Block& block) {
  u32 blocks = state.module->block_count;
  for (u32 first = 0; first < block.threads.size(); first += WARP) {
    u32 end = std::min<u32>((u32)block.threads.size(), first + WARP);
    for (u32 b = 0; b < blocks; b++) {
      u32 most = 0;
      u64 all = 0;
      for (u32 i = first; i < end; i++) {
        u32 n = block.counts[(u64)i * blocks + b];
        most = std::max(most, n);
        all += n;
      }
      state.reply->warp_blocks[b] += most;
      state.reply->thread_blocks[b] += all;
    }
  }
}

}  // namespace optiml
