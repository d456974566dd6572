#include "guest.h"

extern u64 idt[512], tss_descriptor[2];
extern char timer_entry[], exception_entry[], system_call_entry[], interrupt_stack_top[];
extern char trampoline[], trampoline_end[];

static struct {
  unsigned reserved;
  u64 rsp[3];
  u64 zero[11];
} __attribute__((packed)) tss;

static inline void out8(unsigned short port, unsigned char value) {
  __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static inline void write_msr(unsigned msr, u64 value) {
  __asm__ volatile("wrmsr" ::"c"(msr), "a"((unsigned)value), "d"((unsigned)(value >> 32)));
}

static inline void set_gate(unsigned vector, char* handler) {
  u64 at = (u64)handler;
  idt[vector * 2] = (at & 0xffff) | 8UL << 16 | 0x8e00UL << 32 | (at >> 16 & 0xffff) << 48;
  idt[vector * 2 + 1] = at >> 32;
}

void machine_set_up(void) {
  tss.rsp[0] = (u64)interrupt_stack_top;
  u64 base = (u64)&tss;
  tss_descriptor[0] =
      (sizeof tss - 1) | (base & 0xffffff) << 16 | 0x89UL << 40 | (base >> 24 & 0xff) << 56;
  tss_descriptor[1] = base >> 32;
  __asm__ volatile("ltr %%ax" ::"a"(0x30));
  set_gate(6, exception_entry);
  set_gate(32, timer_entry);
  write_msr(0xc0000081, 0x001bUL << 48 | 8UL << 32);  // STAR: user 0x2b/0x23, kernel 8/16
  write_msr(0xc0000082, (u64)system_call_entry);
  write_msr(0xc0000084, 0x200);
  out8(0x20, 0x11), out8(0xa0, 0x11), out8(0x21, 32), out8(0xa1, 40);
  out8(0x21, 4), out8(0xa1, 2), out8(0x21, 1), out8(0xa1, 1), out8(0x21, 0xff), out8(0xa1, 0xff);
}

void machine_start_timer(void) {
  out8(0x43, 0x34), out8(0x40, 0x54), out8(0x40, 0x02);  // 2 kHz
  out8(0x21, 0xfe);
  __asm__ volatile("sti");
}

void machine_stop_timer(void) { out8(0x21, 0xff); }

void machine_second_cpu(void) {
  extern volatile u64 second_done;
  for (char *from = trampoline, *to = (char*)0x8000; from < trampoline_end;) *to++ = *from++;
  volatile unsigned* apic = (volatile unsigned*)0xfee00000;
  apic[0xf0 / 4] = 0x1ff;
  apic[0x310 / 4] = 1U << 24;
  apic[0x300 / 4] = 0x4500;  // INIT
  for (volatile int i = 0; i < 1000; ++i) {
  }
  apic[0x310 / 4] = 1U << 24;
  apic[0x300 / 4] = 0x4608;  // start at 0x8000
  while (second_done == 0) {
  }
}

void machine_exit(void) {
  out8(0x501, 0);
  for (;;) __asm__ volatile("hlt");
}
