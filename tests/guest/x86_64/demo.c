// The demo guest: causes exits of every common kind from functions with names, a known number of
// times, so that a report can be checked against it. Calls of each function in one run:
//
//   kmain 1, console_write 3, console_char 41, rtc_read 400, hpet_read 400, cpuid_read 10,
//   msr_read 10, touch_page 16, compute 400, id 400, clock_sync 2, port_write 32, leave 1
//
// Runs the same under KVM and TCG. Devices: isa-debugcon at 0x402, RTC at 0x70, HPET at 0xfed00000
// (-machine pc,hpet=on), isa-debug-exit at 0x501. tests/system holds the numbers above to a run.
#include <stdint.h>

#include "../sync.h"

#ifndef ROUNDS
#define ROUNDS 400  // tests/bench/merge/slow-device builds guests that run for minutes
#endif
#ifndef COMPUTE
#define COMPUTE 5000
#endif
enum { kRounds = ROUNDS, kLeaves = 10, kPages = 16, kPageStride = 0x200000 };
enum {
  kConsolePort = 0x402,
  kRtcIndex = 0x70,
  kRtcData = 0x71,
  kExitPort = 0x501,
  kSyncPort = 0x80
};

#define FUNCTION __attribute__((noinline, noclone))

static inline void outb(uint16_t port, uint8_t value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t inb(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static volatile uint64_t sink;

FUNCTION void console_char(char c) { outb(kConsolePort, (uint8_t)c); }

FUNCTION void console_write(const char* text) {
  for (; *text != '\0'; ++text) console_char(*text);
}

// Two exits: QEMU's KVM queues the write of the index (coalesced) and replays it with the read.
FUNCTION uint8_t rtc_read(uint8_t index) {
  outb(kRtcIndex, index);
  return inb(kRtcData);
}

static volatile uint32_t* hpet_register(uintptr_t offset) {
  return (volatile uint32_t*)(0xfed00000 + offset);
}

FUNCTION uint32_t hpet_read(void) { return *hpet_register(0xf0); }

FUNCTION uint32_t cpuid_read(uint32_t leaf) {
  uint32_t a = leaf, b, c = 0, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a ^ b ^ c ^ d;
}

// IA32_APIC_BASE exits on every host; the TSC and others may not.
FUNCTION uint64_t msr_read(uint32_t msr) {
  uint32_t low, high;
  __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
  return ((uint64_t)high << 32) | low;
}

// The first touch of memory that nothing has used is a page fault of the host's second level. Each
// page lies in another 2 MiB, so that huge pages do not serve two. Needs 64 MiB of memory.
FUNCTION void touch_page(unsigned number) {
  *(volatile uint8_t*)(0x800000 + (uintptr_t)number * kPageStride) = (uint8_t)number;
}

FUNCTION uint64_t id(uint64_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

// No exits at all: time that belongs to the guest.
FUNCTION uint64_t compute(uint64_t seed) {
  uint64_t x = seed | 1;
  for (int i = 0; i < COMPUTE; ++i) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  return id(x);
}

FUNCTION void port_write(uint32_t port, uint32_t value) {
  __asm__ volatile("outl %0, %w1" : : "a"(value), "Nd"(port));
}

// Relates the clock of whoever records this guest's functions to that of its host.
FUNCTION void clock_sync(void) { sync_series(TRAPLINE_PORT, kSyncPort, port_write); }

// The debug-exit device ends QEMU with (value << 1) | 1.
FUNCTION void leave(uint8_t value) { outb(kExitPort, value); }

void kmain(void) {
  console_write("trapline demo guest\n");
  clock_sync();
  *hpet_register(0x10) = 1;  // let its counter run
  uint64_t sum = 0;
  for (unsigned i = 0; i < kRounds; ++i) {
    sum += rtc_read(0);
    sum += hpet_read();
    sum += compute(i);
  }
  console_write("half way\n");
  for (unsigned i = 0; i < kLeaves; ++i) sum += cpuid_read(i) + msr_read(0x1b);
  for (unsigned i = 0; i < kPages; ++i) touch_page(i);
  sink = sum;
  clock_sync();
  console_write("leaving now\n");
  leave(0);
}
