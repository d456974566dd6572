// A guest for the experiments of tests/merge/advice: the same work, and beside it one thing that
// costs exits. The command line (-append): a letter, a number of rounds, the steps of a round's
// work.
//
//   w  nothing else                               r  reads the RTC
//   h  reads the HPET                             p  reads the PM timer
//   s  writes 16 bytes to the serial port         d  writes 16 bytes to the debug port
//   f  touches another 4 KiB of memory            i  halts for 30 us (local APIC's timer)
//   n  notifies a virtio device's first queue, which is empty
//   j  halts for 60 us, and in each sixth round for 2 ms
//
// It ends through isa-debug-exit at 0x501.
#include "known_work.h"

enum { kDebugPort = 0x402, kSerialPort = 0x3f8, kPmTimer = 0x608 };

static inline uint32_t inl(uint16_t port) {
  uint32_t value;
  __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static volatile uint64_t sink;

static uint64_t compute(uint64_t seed, uint32_t steps) {
  uint64_t x = seed | 1;
  for (uint32_t i = 0; i < steps; ++i) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  return x;
}

static volatile uint32_t* at(uintptr_t address) { return (volatile uint32_t*)address; }

__attribute__((interrupt)) static void on_timer(struct frame* frame) {
  (void)frame;
  *apic(0xb0) = 0;
}

static inline void outl(uint16_t port, uint32_t value) {
  __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}
static uint32_t pci(uint32_t device, uint32_t offset) {
  outl(0xcf8, 0x80000000 | device << 11 | offset);
  return inl(0xcfc);
}

// The notification area of the first virtio device, once the device runs (virtio 1.0; QEMU has the
// common configuration at the beginning of BAR 4 and notifications at 0x3000).
static uintptr_t notify_area(void) {
  enum { kVendor = 0x1af4, kBar4 = 0x20, kFeatureSelect = 8, kFeature = 12, kStatus = 20 };
  for (uint32_t device = 0; device < 32; ++device) {
    if ((pci(device, 0) & 0xffff) != kVendor) continue;
    const uintptr_t bar = pci(device, kBar4) & ~15u;
    volatile uint8_t* status = (volatile uint8_t*)(bar + kStatus);
    *status = 3;  // acknowledged, a driver is there
    *at(bar + kFeatureSelect) = 1;
    *at(bar + kFeature) = 1;  // version 1
    *status = 11;
    *status = 15;
    return bar + 0x3000;
  }
  return 0;
}
static uintptr_t notify;

static uint64_t beside(char what, uint32_t round) {
  enum { kBytes = 16, kHalt = 30000, kShort = 60000, kLong = 2000000, kPage = 4096 };
  switch (what) {
    case 'r':
      outb(kRtcIndex, 0);
      return inb(kRtcData);
    case 'h':
      return *at(0xfed000f0);
    case 'p':
      return inl(kPmTimer);
    case 's':
    case 'd':
      for (int i = 0; i < kBytes; ++i) outb(what == 's' ? kSerialPort : kDebugPort, 'x');
      return 0;
    case 'f':
      *at(0x1000000 + (uintptr_t)round * kPage) = 1;
      return 0;
    case 'n':
      *(volatile uint16_t*)notify = 0;
      return 0;
    case 'i':
    case 'j':
      *apic(0x380) = what == 'i' ? kHalt : round % 6 == 0 ? kLong : kShort;
      __asm__ volatile("sti; hlt; cli" : : : "memory");
      return 0;
    default:
      return 0;
  }
}

void kmain(const uint8_t* start_info) {
  const char* text = command_line(start_info);
  if (text == 0) return;
  const char what = *text++;
  const uint32_t rounds = number(&text), steps = number(&text);
  uint64_t sum = 0;
  if (what == 'i' || what == 'j') timer_setup(on_timer);
  if (what == 'n' && (notify = notify_area()) == 0) return;
  for (uint32_t i = 0; i < rounds; ++i) sum += compute(i, steps) + beside(what, i);
  sink = sum;
  outb(kExitPort, 0);
}
