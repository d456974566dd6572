// The arm64 demo guest, twin of the x86-64 one. Calls of each function in one run:
//
//   kmain 1, gic_init 1, uart_init 1, uart_write 3, uart_char 41, rtc_read 50, compute 50, id 50,
//   sleep_us 10, irq_handler 10, psci 11 (the last switches off), touch_page 16, clock_sync 2,
//   register_write 32
//
// For -M virt with a GICv3: PL011 UART at 0x09000000, PL031 RTC at 0x09010000, the virtual timer's
// interrupt (PPI 27), PSCI by HVC.
#include <stdint.h>

#include "../sync.h"

enum { kRounds = 50, kSleeps = 10, kPages = 16, kPageStride = 0x200000, kTimerInterrupt = 27 };
#define kUart 0x09000000UL
#define kUartUnused 0x09000020UL  // the infrared counter: nothing uses it
#define kRtc 0x09010000UL
#define kDistributor 0x08000000UL
#define kRedistributor 0x080a0000UL
#define kPsciVersion 0x84000000UL
#define kPsciSystemOff 0x84000008UL

#define FUNCTION __attribute__((noinline))

static volatile uint64_t sink;
static volatile uint32_t interrupts;

static inline void write32(uintptr_t address, uint32_t value) {
  __asm__ volatile("str %w0, [%1]" : : "r"(value), "r"(address) : "memory");
}

static inline uint32_t read32(uintptr_t address) {
  uint32_t value;
  __asm__ volatile("ldr %w0, [%1]" : "=r"(value) : "r"(address) : "memory");
  return value;
}

FUNCTION void uart_init(void) { write32(kUart + 0x30, 0x101); }  // enabled, transmits

// One read of the flag register (is the queue full?) and one write.
FUNCTION void uart_char(char c) {
  while ((read32(kUart + 0x18) & 0x20) != 0) {
  }
  write32(kUart, (uint8_t)c);
}

FUNCTION void uart_write(const char* text) {
  for (; *text != '\0'; ++text) uart_char(*text);
}

FUNCTION uint32_t rtc_read(void) { return read32(kRtc); }

FUNCTION uint64_t id(uint64_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

FUNCTION uint64_t compute(uint64_t seed) {
  uint64_t x = seed | 1;
  for (int i = 0; i < 20000; ++i) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  return id(x);
}

FUNCTION uint64_t psci(uint64_t function) {
  register uint64_t x0 __asm__("x0") = function;
  register uint64_t x1 __asm__("x1") = 0;
  register uint64_t x2 __asm__("x2") = 0;
  register uint64_t x3 __asm__("x3") = 0;
  __asm__ volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
  return x0;
}

// The first touch of memory that nothing has used is a page fault of the host's second level. Each
// page lies in another 2 MiB, so that huge pages do not serve two. Needs 64 MiB of memory.
FUNCTION void touch_page(unsigned number) {
  *(volatile uint8_t*)(0x41000000 + (uintptr_t)number * kPageStride) = (uint8_t)number;
}

FUNCTION void register_write(uint32_t address, uint32_t value) { write32(address, value); }

// Relates the clock of whoever records this guest's functions to that of its host.
FUNCTION void clock_sync(void) { sync_series(TRAPLINE_MMIO, kUartUnused, register_write); }

FUNCTION void gic_init(void) {
  write32(kDistributor, 0x12);                                          // group 1, affinity routing
  write32(kRedistributor + 0x14, read32(kRedistributor + 0x14) & ~2U);  // wake up
  while ((read32(kRedistributor + 0x14) & 4U) != 0) {
  }
  write32(kRedistributor + 0x10080, 0xffffffff);             // all in group 1
  write32(kRedistributor + 0x10100, 1U << kTimerInterrupt);  // enabled
  __asm__ volatile("msr S3_0_C12_C12_5, %0" : : "r"(1UL));   // ICC_SRE_EL1
  __asm__ volatile("isb");
  __asm__ volatile("msr S3_0_C4_C6_0, %0" : : "r"(0xffUL));  // ICC_PMR_EL1: all priorities
  __asm__ volatile("msr S3_0_C12_C12_7, %0" : : "r"(1UL));   // ICC_IGRPEN1_EL1
  __asm__ volatile("isb");
}

FUNCTION void irq_handler(void) {
  uint64_t number;
  __asm__ volatile("mrs %0, S3_0_C12_C12_0" : "=r"(number));  // ICC_IAR1_EL1
  __asm__ volatile("msr cntv_ctl_el0, %0" : : "r"(0UL));
  ++interrupts;
  __asm__ volatile("msr S3_0_C12_C12_1, %0" : : "r"(number));  // ICC_EOIR1_EL1
}

void bad_exception(void) {
  (void)psci(kPsciSystemOff);
  for (;;) {
  }
}

// Sleeps by the virtual timer. The interrupt is masked while WFI waits, so it cannot come before.
FUNCTION void sleep_us(uint64_t microseconds) {
  uint64_t frequency;
  const uint32_t before = interrupts;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  __asm__ volatile("msr cntv_tval_el0, %0" : : "r"(frequency / 1000000 * microseconds));
  __asm__ volatile("msr cntv_ctl_el0, %0" : : "r"(1UL));
  while (interrupts == before) {
    __asm__ volatile("wfi\n msr daifclr, #2\n isb\n msr daifset, #2" : : : "memory");
  }
}

void kmain(void) {
  gic_init();
  uart_init();
  uart_write("trapline demo guest\n");
  clock_sync();
  uint64_t sum = 0;
  for (unsigned i = 0; i < kRounds; ++i) sum += rtc_read() + compute(i);
  uart_write("half way\n");
  for (unsigned i = 0; i < kSleeps; ++i) {
    sleep_us(1000);
    sum += psci(kPsciVersion);
  }
  for (unsigned i = 0; i < kPages; ++i) touch_page(i);
  sink = sum;
  clock_sync();
  uart_write("leaving now\n");
  (void)psci(kPsciSystemOff);
}
