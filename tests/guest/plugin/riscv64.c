#include "guest.h"

extern volatile u64 second_done, second_go;
static volatile u64* const compare = (volatile u64*)0x02004000;
static volatile u64* const now = (volatile u64*)0x0200bff8;
enum { kTick = 5000 };  // of the 10 MHz timer: 2 kHz

void machine_next_tick(void) { *compare = *now + kTick; }

void machine_start_timer(void) {
  *compare = *now + kTick;
  __asm__ volatile("csrs mie, %0\n csrs mstatus, %1" ::"r"(1UL << 7), "r"(1UL << 3));
}
void machine_stop_timer(void) { __asm__ volatile("csrc mie, %0" ::"r"(1UL << 7)); }

void machine_second_cpu(void) {
  second_go = 1;
  while (second_done == 0) {
  }
}

void machine_exit(void) {
  *(volatile unsigned*)0x100000 = 0x5555;
  for (;;) {
  }
}
