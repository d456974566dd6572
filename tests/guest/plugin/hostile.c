// A guest that wants to fill the memory and the disk of whoever follows its calls. In each round,
// which repeats until it is ended:
// - calls on stacks that were never used: on x86 every address of the upper half is one of two
//   pages of 2 MiB; on arm64 the stack pointer only says so, as nothing is stored;
// - code that was just written, full of calls, at new addresses: the same page again (x86), or the
//   next of 1,000 places (arm64);
// - a recursion that is deeper than any list of frames;
// - jumps without calls, returns without calls, calls that never return.
#include "idle.h"

enum { kBig = 1 << 21, kStacks = 512, kCalls = 4000 };
static const u64 kUpper = 0xffff800000000000;
static volatile u64 sink;

NOINLINE void victim(void) { sink = leaf(sink); }

#ifdef __x86_64__
static u64 upper[512] __attribute__((aligned(4096))), pages[512] __attribute__((aligned(4096)));
static unsigned char* const kCode = (unsigned char*)(34UL << 20);  // physical
static const u64 kDeepStack = 60UL << 20;

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

// Calls, each of the code after it, that never return.
static void run_new_code(u64 round) {
  unsigned char* at = kCode;
  for (int i = 0; i < kCalls; ++i) {
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

#else
static unsigned* const kCode = (unsigned*)0x41000000;  // 16 MiB of them

static void map_upper_half(void) {}

static void use_new_stacks(u64 round) {
  for (u64 i = 0; i < kStacks; ++i) {
    const u64 stack = kUpper + (round * kStacks + i) * 16384 + 8192;
    __asm__ volatile("mov x19, sp; mov sp, %0; bl 1f; b 2f; 1: ret; 2: mov sp, x19" ::"r"(stack)
                     : "x19", "x30", "memory");
  }
}

// Each calls the next instruction; then a jump back.
static void run_new_code(u64 round) {
  unsigned* const made = kCode + round % 1000 * (kCalls + 1);
  for (int i = 0; i < kCalls; ++i) made[i] = 0x94000001;
  made[kCalls] = 0xd61f0280;  // br x20
  __asm__ volatile("dsb ish; ic iallu; isb; adr x20, 1f; br %0; 1:" ::"r"(made)
                   : "x20", "x30", "memory");
}

static void recurse_deep(void) {
  __asm__ volatile("mov w1, %w0; 1: subs w1, w1, #1; b.eq 2f; bl 1b; 2:" ::"r"(1500000)
                   : "x1", "x30", "memory", "cc");
}

static void jump_about(void) {
  for (int i = 0; i < 1000; ++i)
    __asm__ volatile("adr x30, 1f; ret; 1: adr x30, 2f; b victim; 2: bl 3f; 3:" ::
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                           "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x30", "memory");
}
#endif

NOINLINE void guest_main(void) {
  map_upper_half();
  for (u64 round = 0;; ++round) {
    if (round % 32 == 0) recurse_deep();
    use_new_stacks(round);
    run_new_code(round);
    jump_about();
  }
}
