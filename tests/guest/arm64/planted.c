// The arm64 twin of x86_64/planted.c, for its page faults. What it does is told by "planted WHAT
// ROUNDS N" in its command line (-append), which is in the device tree at the start of memory:
//
//   d  writes to each of N pages of 4 KiB from 16 MiB on
//   r  reads each page first
//   e  computes for about 100 ms before each round
//
// For -M virt: PL011 UART at 0x09000000, PSCI by HVC.
#include <stdint.h>

#define kMemory 0x40000000UL
#define kFirst (kMemory + 0x1000000UL)
#define kUart 0x09000000UL
#define kPsciSystemOff 0x84000008UL
enum { kTree = 1 << 20, kPage = 4096 };

static volatile uint64_t sink;

static void uart_write(const char* text) {
  for (; *text != '\0'; ++text) *(volatile uint32_t*)kUart = (uint8_t)*text;
}

static void switch_off(void) {
  register uint64_t x0 __asm__("x0") = kPsciSystemOff;
  __asm__ volatile("hvc #0" : "+r"(x0) : : "x1", "x2", "x3", "memory");
}

void irq_handler(void) {}
void bad_exception(void) {
  switch_off();
  for (;;) {
  }
}

static const char* command(void) {
  static const char kWord[] = "planted ";
  for (const char* at = (const char*)kMemory; at < (const char*)kMemory + kTree; ++at) {
    unsigned same = 0;
    while (kWord[same] != '\0' && at[same] == kWord[same]) ++same;
    if (kWord[same] == '\0') return at + same;
  }
  return 0;
}

static uint32_t number(const char** text) {
  uint32_t value = 0;
  while (**text == ' ') ++*text;
  for (; **text >= '0' && **text <= '9'; ++*text) value = value * 10 + (uint32_t)(**text - '0');
  return value;
}

void kmain(void) {
  const char* text = command();
  if (text == 0) bad_exception();
  const char what = *text++;
  const uint32_t rounds = number(&text), pages = number(&text);
  *(volatile uint32_t*)(kUart + 0x30) = 0x101;  // enabled, transmits
  uart_write("planted guest\n");
  uint64_t sum = 1;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; what == 'e' && i < 10000000; ++i)
      sum = sum * 6364136223846793005ULL + 1442695040888963407ULL;
    for (uint32_t i = 0; i < pages; ++i) {
      volatile uint8_t* page = (volatile uint8_t*)(kFirst + (uintptr_t)i * kPage);
      if (what == 'r') sum += *page;
      *page = 1;
    }
  }
  sink = sum;
  uart_write("leaving now\n");
  switch_off();
}
