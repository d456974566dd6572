// A guest that wants to fill the memory and the disk of whoever follows its calls. In each round, which
// repeats until it is ended:
// - calls on stacks that were never used: every address of the upper half is one page of 2 MiB;
// - code that was just written and has new addresses (the same page again), full of calls;
// - a recursion as deep as a stack of 16 MiB;
// - jumps without calls, returns without calls, calls that never return;
// - system registers and halts are left alone: it is as fast as it can be.
// x86-64 only: x86_64.S and x86_64.c are its machine part.
#include "guest.h"

enum { kBig = 1 << 21, kStacks = 512 };
static u64 upper[512] __attribute__((aligned(4096))), pages[512] __attribute__((aligned(4096)));
static unsigned char* const kCode = (unsigned char*)(34UL << 20);  // physical
static const u64 kDeepStack = 60UL << 20, kUpper = 0xffff800000000000;
static volatile u64 sink;
volatile u64 second_done;

u64 leaf(u64 value) { return value; }
void handle_timer(void) {}
void handle_exception(void) {}
u64 handle_system_call(u64 number) { return number; }
void second_main(void) {}

NOINLINE void victim(void) { sink = leaf(sink); }

// All of the upper half: odd pages are code, even ones are stacks.
static void map_upper_half(void) {
  for (u64 i = 0; i < 512; ++i) {
    pages[i] = (i % 2 == 0 ? 32UL << 20 : 34UL << 20) | 0x83;
    upper[i] = (u64)pages | 3;
  }
  u64 tables;
  __asm__ volatile("mov %%cr3, %0" : "=r"(tables));
  for (u64 i = 256; i < 512; ++i) ((u64*)tables)[i] = (u64)upper | 3;
  __asm__ volatile("mov %0, %%cr3" ::"r"(tables) : "memory");
}

static void call_on(u64 stack, void (*function)(void)) {
  __asm__ volatile("mov %%rsp, %%rbx; mov %0, %%rsp; call *%1; mov %%rbx, %%rsp" ::"r"(stack),
                   "r"(function)
                   : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}

static void use_new_stacks(u64 round) {
  for (u64 i = 0; i < kStacks; ++i) {
    const u64 number = round * kStacks + i;
    const u64 page = number / 128 * 2 % (1UL << 25);  // 128 stacks of 16 KiB in each even page
    call_on(kUpper + page * kBig + number % 128 * 16384 + 12288, victim);
  }
}

// 4,000 calls, each of the next, as `call +0; ret` has none after it.
static void run_new_code(u64 round) {
  unsigned char* at = kCode;
  for (int i = 0; i < 4000; ++i) {
    *at++ = 0xe8, *at++ = (unsigned char)(1 + round % 4), *at++ = 0, *at++ = 0, *at++ = 0;
    *at++ = 0x90;
    for (u64 gap = 0; gap < round % 4; ++gap) *at++ = 0x90;
    *at++ = 0x58;  // pop: the call never returns
  }
  *at = 0xc3;
  void (*const made)(void) = (void (*)(void))(kUpper + (round % (1UL << 24) * 2 + 1) * kBig);
  __asm__ volatile("call *%0" ::"r"(made) : "rax", "memory");
}

static void recurse_deep(void) {
  __asm__ volatile(
      "mov %%rsp, %%rbx; mov %0, %%rsp; mov $1500000, %%ecx; call 1f; jmp 2f;"
      "1: dec %%ecx; jz 3f; call 1b; 3: ret;"
      "2: mov %%rbx, %%rsp" ::"r"(kDeepStack)
      : "rbx", "rcx", "memory");
}

static void jump_about(void) {
  for (int i = 0; i < 1000; ++i)
    __asm__ volatile(
        "lea 1f(%%rip), %%rax; push %%rax; ret; 1: lea 2f(%%rip), %%rax; push %%rax; jmp victim;"
        "2: call 3f; 3: add $8, %%rsp" ::
            : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}

NOINLINE void guest_main(void) {
  map_upper_half();
  for (u64 round = 0;; ++round) {
    if (round % 32 == 0) recurse_deep();
    use_new_stacks(round);
    run_new_code(round);
    jump_about();
  }
}
