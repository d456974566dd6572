// What the guests of known work share: ports, the local APIC's timer, the command line.
#pragma once

#include <stdint.h>

enum { kRtcIndex = 0x70, kRtcData = 0x71, kExitPort = 0x501 };  // isa-debug-exit
enum { kCode = 8, kTimerVector = 32, kGate = 0x8e };
enum { kMagic = 0x336ec578, kCommandLine = 24 };  // struct hvm_start_info

static inline void outb(uint16_t port, uint8_t value) {
  __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}
static inline uint8_t inb(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static inline volatile uint32_t* apic(uintptr_t offset) {
  return (volatile uint32_t*)(0xfee00000 + offset);
}

struct frame;
typedef void (*Handler)(struct frame* frame);

// The timer of the local APIC, one shot, calls an interrupt handler.
static inline void timer_setup(Handler on_timer) {
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

// The command line (-append); 0: the guest was not started by PVH.
static inline const char* command_line(const uint8_t* start_info) {
  if (*(const uint32_t*)start_info != kMagic) return 0;
  return (const char*)(uintptr_t) * (const uint64_t*)(start_info + kCommandLine);
}
// The next decimal number of a command line, which `text` then stands behind.
static inline uint32_t number(const char** text) {
  uint32_t value = 0;
  while (**text == ' ') ++*text;
  for (; **text >= '0' && **text <= '9'; ++*text) value = value * 10 + (uint32_t)(**text - '0');
  return value;
}
