// The context switch saves what the System V ABI asks a callee to save. Rounding modes are never left changed by
// translated code, so the control words stay out of it.
#include "fibres.h"

#if !defined(__x86_64__)
#error "the context switch is written for x86-64"
#endif

asm(R"(
.text
.globl optiml_switch
.hidden optiml_switch
.type optiml_switch, @function
optiml_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size optiml_switch, .-optiml_switch
)");

namespace optiml {

void* fibre_prepare(u8* stack, u32 number, void (*entry)()) {
  // Stacks that all begin at the same offset of a page would fight for the same sets of the caches.
  u64* top = (u64*)(stack + STACK_BYTES - 64 - number % 61 * 320);
  *--top = 0;  // the return address of `entry`, which never returns; keeps the stack aligned as after a call
  *--top = (u64)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  return top;
}

}  // namespace optiml
