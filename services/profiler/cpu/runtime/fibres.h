// Context switch between the scheduler and the fibre of a CUDA thread.
#pragma once
#include "device.h"

namespace optiml {

constexpr u64 STACK_BYTES = 144 * 1024;

// Prepares `stack`, that of thread `number`, so that the first switch to the returned stack pointer calls `entry`.
void* fibre_prepare(u8* stack, u32 number, void (*entry)());

}  // namespace optiml

// Saves the callee-saved registers and the stack pointer in `*save`, then continues at `to`.
extern "C" void optiml_switch(void** save, void* to);
