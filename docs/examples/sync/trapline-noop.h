/* The magic no-op: an instruction that does nothing on hardware and under every hypervisor, and
 * that Trapline's plugin recognises when QEMU translates it. The plugin stamps it with the clock of
 * its records and keeps the readings that the guest left in registers: so the guest's clock, and
 * whatever else the guest does between two of them, is aligned with the plugin's clock.
 * docs/plugin.md describes it, docs/formats/sync.md what becomes of it. Needs no libraries:
 * firmware and bare-metal guests include it too.
 *
 *   x86-64   0f 1f 84 00 54 52 4c 4e   nop dword ptr [rax + rax + 0x4e4c5254]
 *   aarch64  f2ca899f                  movk xzr, #0x544c, lsl #32
 *   riscv64  54ca3013                  sltiu zero, s4, 0x54c (a hint for custom use)
 *
 * Its six operands lie where a function's arguments lie (rdi rsi rdx rcx r8 r9, x0..x5, a0..a5). */
#ifndef TRAPLINE_NOOP_H
#define TRAPLINE_NOOP_H
#include <stdint.h>

/* Inlined always: a guest whose functions are counted must not get new ones. */
#define TRAPLINE_INLINE static inline __attribute__((always_inline))

struct trapline_reading {
  uint64_t clock;   /* of the clock named in the header; 0: none */
  uint64_t counter; /* the TSC, CNTVCT, or the time CSR; 0: none */
};

enum {
  TRAPLINE_BEFORE = 1, /* the first reading is there: taken just before this no-op */
  TRAPLINE_AFTER = 2,  /* the second is: taken after what followed the previous no-op */
  TRAPLINE_PORT = 4,   /* between this no-op and the next, `value` is written to an I/O port */
  TRAPLINE_MMIO = 8,   /* the same, to a device's page */
};
/* Which clock the readings are of; bare metal has none but the counter. */
enum { TRAPLINE_MONO = 0, TRAPLINE_NO_CLOCK = 255 };

TRAPLINE_INLINE uint64_t trapline_header(uint32_t series, unsigned index, unsigned flags,
                                         unsigned clock) {
  return (uint64_t)series << 32 | (uint64_t)(index & 0xffff) << 16 | flags << 8 | clock;
}
/* The second operand: where (a port, or a device's address below 4 GiB) and what. The value is the
 * record's own, so that it identifies the exit in the host's recording. */
TRAPLINE_INLINE uint64_t trapline_write(uint32_t where, uint32_t value) {
  return (uint64_t)where << 32 | value;
}
TRAPLINE_INLINE uint32_t trapline_value(uint32_t series, unsigned index) {
  return (series * 2654435761u & 0xffffff00u) | (index & 0xff);
}

TRAPLINE_INLINE uint64_t trapline_counter(void) {
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
  uint64_t value;
  __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
  return value;
#elif defined(__riscv)
  uint64_t value;
  __asm__ volatile("rdtime %0" : "=r"(value) : : "memory");
  return value;
#else
  return 0;
#endif
}

TRAPLINE_INLINE void trapline_noop(uint64_t header, uint64_t write, struct trapline_reading before,
                                   struct trapline_reading after) {
#if defined(__x86_64__)
  register uint64_t r8 __asm__("r8") = after.clock;
  register uint64_t r9 __asm__("r9") = after.counter;
  __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4c, 0x4e"
                   :
                   : "D"(header), "S"(write), "d"(before.clock), "c"(before.counter), "r"(r8),
                     "r"(r9)
                   : "memory");
#elif defined(__aarch64__) || defined(__riscv)
#if defined(__aarch64__)
#define TRAPLINE_REGISTER(n) __asm__("x" #n)
#else
#define TRAPLINE_REGISTER(n) __asm__("a" #n)
#endif
  register uint64_t r0 TRAPLINE_REGISTER(0) = header;
  register uint64_t r1 TRAPLINE_REGISTER(1) = write;
  register uint64_t r2 TRAPLINE_REGISTER(2) = before.clock;
  register uint64_t r3 TRAPLINE_REGISTER(3) = before.counter;
  register uint64_t r4 TRAPLINE_REGISTER(4) = after.clock;
  register uint64_t r5 TRAPLINE_REGISTER(5) = after.counter;
#if defined(__aarch64__)
  __asm__ volatile(".inst 0xf2ca899f"
                   :
                   : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                   : "memory");
#else
  __asm__ volatile(".4byte 0x54ca3013"
                   :
                   : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                   : "memory");
#endif
#else
  (void)header, (void)write, (void)before, (void)after;
#endif
}
#endif
