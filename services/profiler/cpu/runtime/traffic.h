// What a launch does to each buffer, for the cache model in services/profiler/traffic.py.
#pragma once
#include "device.h"

namespace optiml {

// Totals for each allocation, in sectors unless it says lines; mirrored by services/profiler/cpu/counters.py.
enum Traffic : u32 {
  LOAD_LINES,          // 128-byte lines that load requests touch
  LOAD_MISSES,         // that loads miss in a cache of the warp's own
  LOAD_WARP_SECTORS,   // sum over warps of the different sectors that each loads
  LOAD_BLOCK_SECTORS,  // sum over blocks likewise
  STORE_LINES,
  STORE_SECTORS,       // request by request
  STORE_BLOCK_SECTORS,
  TRAFFIC_COUNTERS
};

void traffic_launch(u32 lines_of_a_warp);
void traffic_block();
// The different sectors of one request of one warp, ascending.
void traffic_request(u32 warp, u8 access, const u64* sectors, u32 count, u64* totals);

}  // namespace optiml
