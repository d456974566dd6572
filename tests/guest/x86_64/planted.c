// A guest for the tests of `trapline report --waits`: what it does is known, and told by the first
// letters of its command line (-append):
//
//   c ROUNDS      computes for about a millisecond, then reads the RTC (two exits to QEMU)
//   l ROUNDS      reads the RTC, with hardly anything between
//   h TIMES NS    halts until the timer of its local APIC, which it sets NS ahead each time
//   m PAGES       touches so many pages of memory, 2 MiB apart, from 16 MiB on
//
// It ends through isa-debug-exit at 0x501 and tells the console at 0x402 that it did.
#include <stdint.h>

enum { kConsolePort = 0x402, kRtcIndex = 0x70, kRtcData = 0x71, kExitPort = 0x501 };
enum { kCode = 8, kTimerVector = 32, kGate = 0x8e };
enum { kMagic = 0x336ec578, kCommandLine = 24 };  // struct hvm_start_info
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

FUNCTION void console_write(const char* text) {
  for (; *text != '\0'; ++text) outb(kConsolePort, (uint8_t)*text);
}

FUNCTION uint8_t rtc_read(uint8_t index) {
  outb(kRtcIndex, index);
  return inb(kRtcData);
}

FUNCTION uint64_t compute(uint64_t seed, unsigned steps) {
  uint64_t x = seed | 1;
  for (unsigned i = 0; i < steps; ++i) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  return x;
}

static volatile uint32_t* apic(uintptr_t offset) {
  return (volatile uint32_t*)(0xfee00000 + offset);
}

static volatile unsigned fired;
struct frame;
__attribute__((interrupt)) static void on_timer(struct frame* frame) {
  (void)frame;
  ++fired;
  *apic(0xb0) = 0;
}

static void timer_setup(void) {
  static struct {
    uint16_t low, selector;
    uint8_t stack, type;
    uint16_t middle;
    uint32_t high, zero;
  } idt[kTimerVector + 1];
  const uintptr_t handler = (uintptr_t)on_timer;
  idt[kTimerVector].low = (uint16_t)handler;
  idt[kTimerVector].selector = kCode;
  idt[kTimerVector].type = kGate;
  idt[kTimerVector].middle = (uint16_t)(handler >> 16);
  const struct __attribute__((packed)) {
    uint16_t limit;
    uint64_t base;
  } pointer = {sizeof idt - 1, (uintptr_t)idt};
  __asm__ volatile("lidt %0" : : "m"(pointer));
  outb(0x21, 0xff);  // nothing from the old interrupt controllers
  outb(0xa1, 0xff);
  *apic(0xf0) = 0x1ff;          // the local APIC is on
  *apic(0x3e0) = 0xb;           // its timer is not divided: KVM's counts nanoseconds
  *apic(0x320) = kTimerVector;  // one shot
}

FUNCTION void halt_until_timer(uint32_t ns) {
  *apic(0x380) = ns;
  __asm__ volatile("sti; hlt; cli" : : : "memory");
}

static uint32_t number(const char** text) {
  uint32_t value = 0;
  while (**text == ' ') ++*text;
  for (; **text >= '0' && **text <= '9'; ++*text) value = value * 10 + (uint32_t)(**text - '0');
  return value;
}

void kmain(const uint8_t* start_info) {
  if (*(const uint32_t*)start_info != kMagic) return;
  const char* text = (const char*)(uintptr_t) * (const uint64_t*)(start_info + kCommandLine);
  const char what = *text++;
  const uint32_t times = number(&text), ns = number(&text);
  uint64_t sum = 0;
  console_write("planted guest\n");
  if (what == 'h') timer_setup();
  for (uint32_t i = 0; i < times; ++i) {
    if (what == 'c') sum += compute(i, 100000);
    if (what == 'l') sum += compute(i, 2000);
    if (what == 'c' || what == 'l') sum += rtc_read(0);
    if (what == 'h') halt_until_timer(ns);
    if (what == 'm') *(volatile uint8_t*)(0x1000000 + (uintptr_t)i * 0x200000) = 1;
  }
  sink = sum;
  if (what == 'h' && fired != times) console_write("not each halt had its timer\n");
  console_write("leaving now\n");
  outb(kExitPort, 0);
}
