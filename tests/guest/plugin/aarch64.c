#include "guest.h"

extern char second_start[];
extern volatile u64 second_done;
u64 machine_psci(u64 function, u64 a, u64 b, u64 c);

static volatile unsigned* const distributor = (volatile unsigned*)0x08000000;
static volatile unsigned* const interface = (volatile unsigned*)0x08010000;
static unsigned acknowledged;
enum { kTimer = 27 };

void machine_set_up(void) {
  distributor[0] = 1;
  distributor[0x100 / 4] = 1U << kTimer;
  interface[1] = 0xff;
  interface[0] = 1;
}

static inline void arm_timer(void) {
  u64 frequency;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  __asm__ volatile("msr cntv_tval_el0, %0" ::"r"(frequency / 2000));
}

void machine_start_timer(void) {
  arm_timer();
  __asm__ volatile("msr cntv_ctl_el0, %0\n msr daifclr, #2" ::"r"(1UL));
}
void machine_stop_timer(void) { __asm__ volatile("msr cntv_ctl_el0, %0" ::"r"(2UL)); }
void machine_acknowledge(void) {
  acknowledged = interface[3];
  arm_timer();
}
void machine_end_of_interrupt(void) { interface[4] = acknowledged; }

void machine_second_cpu(void) {
  machine_psci(0xc4000003, 1, (u64)second_start, 0);  // CPU_ON
  while (second_done == 0) {
  }
}

void machine_exit(void) {
  machine_psci(0x84000008, 0, 0, 0);  // SYSTEM_OFF
  for (;;) {
  }
}
