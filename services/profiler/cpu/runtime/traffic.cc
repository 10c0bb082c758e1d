// Counts, for each buffer, what does not depend on which warps and blocks run at the same time: how often a warp finds
// what it touches in its own share of L1, and how many different sectors warps and blocks touch.
#include "traffic.h"

#include <vector>

namespace optiml {
namespace {

constexpr u32 WAYS = 4, WARPS = BLOCK_THREADS_MAX / WARP;
constexpr u32 SECTORS_OF_A_LINE = 4;

// A sector that the current block has touched: by which warps it was loaded, and whether it was stored to.
struct Touched {
  u64 sector;
  u32 epoch;
  u32 loaded_by;
  bool stored;
};
struct Line {
  u64 tag;
  u32 epoch, age;
  u8 sectors;
};

std::vector<Touched> table(1 << 12);  // open addressing; entries of other epochs are free
u32 used, epoch;
std::vector<Line> caches;  // WARPS x sets x WAYS
u32 sets, age;

u64 mixed(u64 x) { return (x * 0x9E3779B97F4A7C15ull) >> 20; }

Touched* place(std::vector<Touched>& entries, u64 sector) {
  u64 mask = entries.size() - 1;
  for (u64 i = mixed(sector) & mask;; i = (i + 1) & mask)
    if (entries[i].epoch != epoch || entries[i].sector == sector) return &entries[i];
}

Touched& touched(u64 sector) {
  Touched* found = place(table, sector);
  if (found->epoch == epoch) return *found;
  if (2 * ++used > table.size()) {
    std::vector<Touched> larger(2 * table.size());
    for (const Touched& entry : table)
      if (entry.epoch == epoch) *place(larger, entry.sector) = entry;
    table.swap(larger);
    found = place(table, sector);
  }
  *found = Touched{sector, epoch, 0, false};
  return *found;
}

bool misses(u32 warp, u64 sector) {
  u64 line = sector / SECTORS_OF_A_LINE;
  u8 bit = (u8)(1u << (sector % SECTORS_OF_A_LINE));
  Line* set = &caches[(warp * (u64)sets + mixed(line) % sets) * WAYS];
  Line* oldest = set;
  age++;
  for (Line* way = set; way < set + WAYS; way++) {
    if (way->epoch == epoch && way->tag == line) {
      bool missing = !(way->sectors & bit);
      way->age = age, way->sectors |= bit;
      return missing;
    }
    if (way->epoch != epoch || (oldest->epoch == epoch && way->age < oldest->age)) oldest = way;
  }
  *oldest = Line{line, epoch, age, bit};
  return true;
}

}  // namespace

void traffic_launch(u32 lines_of_a_warp) {
  sets = lines_of_a_warp > WAYS ? lines_of_a_warp / WAYS : 1;
  caches.assign((u64)WARPS * sets * WAYS, Line{});
}

void traffic_block() {
  epoch++;
  used = 0;
}

void traffic_request(u32 warp, u8 access, const u64* sectors, u32 count, u64* totals) {
  u32 lines = 0;
  for (u32 i = 0; i < count; i++)
    if (i == 0 || sectors[i] / SECTORS_OF_A_LINE != sectors[i - 1] / SECTORS_OF_A_LINE) lines++;
  totals[access == LOAD ? LOAD_LINES : STORE_LINES] += lines;
  for (u32 i = 0; i < count; i++) {
    Touched& entry = touched(sectors[i]);
    if (access != LOAD) {
      totals[STORE_SECTORS]++;
      if (!entry.stored) totals[STORE_BLOCK_SECTORS]++;
      entry.stored = true;
      if (access == STORE) continue;
    }
    if (access == LOAD && misses(warp, sectors[i])) totals[LOAD_MISSES]++;
    if (access == ATOMIC) totals[LOAD_MISSES]++;  // atomics are done by L2
    if (!entry.loaded_by) totals[LOAD_BLOCK_SECTORS]++;
    if (!(entry.loaded_by >> warp & 1)) totals[LOAD_WARP_SECTORS]++;
    entry.loaded_by |= 1u << warp;
  }
}

}  // namespace optiml
