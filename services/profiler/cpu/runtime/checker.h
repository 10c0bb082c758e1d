// What the checker remembers of memory and of each block.
#pragma once
#include <unordered_map>

#include "executor.h"

namespace optiml {

// Flags of a mark.
constexpr u8 IS_STRONG = 1, SEVERAL_LANES = 2;

// One access: who, when, which bytes of the word.
struct Mark {
  u32 serial;  // of the block; 0: none
  u32 time;
  u16 thread, fences, site;
  u8 mask, flags;
};
struct Cell {
  Mark write;
  Mark reads[2];  // by two warps of one block
  Mark foreign;   // and one of another block
};

// What is known of one block's accesses.
struct Known {
  u32 time;                              // those before it
  std::unordered_map<u16, u16> threads;  // and those of a thread before its so-many-th fence
};
typedef std::unordered_map<u32, Known> Knowledge;  // by block serial

struct CheckerBlock {
  u32 now, full;          // time, and that of the last barrier of the whole block
  std::vector<u32> seen;  // [warp][warp]: up to when
  u32 arrived[BARRIERS][WARP];  // what those that arrived at a barrier with a count know of each warp
  Knowledge acquired;
  std::vector<Cell> cells;  // of shared memory; those of earlier blocks are told by their serial
  std::vector<u8> written;
};

}  // namespace optiml
