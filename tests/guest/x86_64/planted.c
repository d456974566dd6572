// A guest for the tests of `trapline report --waits`: what it does is known, and told by the first
// letters of its command line (-append):
//
//   c ROUNDS      computes for about a millisecond, then reads the RTC (two exits to QEMU)
//   l ROUNDS      reads the RTC, with hardly anything between
//   h TIMES NS    halts until the timer of its local APIC, which it sets NS ahead each time
//   w ROUNDS      computes for about a millisecond, then writes to one of 16 pages from 16 MiB on;
//                 after 8 of them it reads the RTC
//   m PAGES STEPS touches so many pages of memory, 2 MiB apart, from 16 MiB on, and computes so
//                 many steps before each (100,000: about a millisecond)
//   d ROUNDS N    writes to each of N pages of 4 KiB from 16 MiB on, then reads the RTC
//   r ROUNDS N    the same, but reads each page first
//   e ROUNDS N    computes for about 100 ms, then writes to each of the N pages
//   k ROUNDS N    the same with pages that are 2 MiB apart
//
// It ends through isa-debug-exit at 0x501 and tells the console at 0x402 that it did.
#include "known_work.h"

enum { kConsolePort = 0x402 };
#define FUNCTION __attribute__((noinline, noclone))

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

static volatile unsigned fired;
__attribute__((interrupt)) static void on_timer(struct frame* frame) {
  (void)frame;
  ++fired;
  *apic(0xb0) = 0;
}

FUNCTION void halt_until_timer(uint32_t ns) {
  *apic(0x380) = ns;
  __asm__ volatile("sti; hlt; cli" : : : "memory");
}

FUNCTION void write_pages(unsigned count, int reads, unsigned apart) {
  for (unsigned i = 0; i < count; ++i) {
    volatile uint8_t* page = (volatile uint8_t*)(0x1000000 + (uintptr_t)i * apart);
    if (reads) sink += *page;
    *page = 1;
  }
}

void kmain(const uint8_t* start_info) {
  const char* text = command_line(start_info);
  if (text == 0) return;
  const char what = *text++;
  const uint32_t times = number(&text), ns = number(&text), steps = ns, pages = ns;
  uint64_t sum = 0;
  console_write("planted guest\n");
  if (what == 'h') timer_setup(on_timer);
  for (uint32_t i = 0; i < times; ++i) {
    if (what == 'c' || what == 'w') sum += compute(i, 100000);
    if (what == 'l') sum += compute(i, 2000);
    if (what == 'e' || what == 'k') sum += compute(i, 10000000);
    if (what == 'd' || what == 'r' || what == 'e') write_pages(pages, what == 'r', 4096);
    if (what == 'k') write_pages(pages, 0, 0x200000);
    if (what == 'c' || what == 'd' || what == 'r' || what == 'l' || (what == 'w' && i % 8 == 0))
      sum += rtc_read(0);
    if (what == 'h') halt_until_timer(ns);
    if (what == 'w') *(volatile uint8_t*)(0x1000000 + (uintptr_t)(i % 16) * 0x200000) = 1;
    if (what == 'm') sum += compute(i, steps);
    if (what == 'm') *(volatile uint8_t*)(0x1000000 + (uintptr_t)i * 0x200000) = 1;
  }
  sink = sum;
  if (what == 'h' && fired != times) console_write("not each halt had its timer\n");
  console_write("leaving now\n");
  outb(kExitPort, 0);
}
