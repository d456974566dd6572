// A guest for the experiments of tests/merge/advice: the same work, and beside it one thing that
// costs exits. The command line (-append): a letter, a number of rounds, the steps of a round's
// work.
//
//   w  nothing else                               r  reads the RTC
//   h  reads the HPET                             p  reads the PM timer
//   s  writes 16 bytes to the serial port         d  writes 16 bytes to the debug port
//   f  touches another 4 KiB of memory            i  halts for 30 us (local APIC's timer)
//   n  notifies a virtio device's first queue, which is empty
//
// It ends through isa-debug-exit at 0x501.
#include <stdint.h>

enum {
  kDebugPort = 0x402,
  kSerialPort = 0x3f8,
  kPmTimer = 0x608,
  kRtcIndex = 0x70,
  kRtcData = 0x71,
  kExitPort = 0x501
};
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
static volatile uint32_t* apic(uintptr_t offset) { return at(0xfee00000 + offset); }

struct frame;
__attribute__((interrupt)) static void on_timer(struct frame* frame) {
  (void)frame;
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
  enum { kBytes = 16, kHalt = 30000, kPage = 4096 };
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
      *apic(0x380) = kHalt;
      __asm__ volatile("sti; hlt; cli" : : : "memory");
      return 0;
    default:
      return 0;
  }
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
  const uint32_t rounds = number(&text), steps = number(&text);
  uint64_t sum = 0;
  if (what == 'i') timer_setup();
  if (what == 'n' && (notify = notify_area()) == 0) return;
  for (uint32_t i = 0; i < rounds; ++i) sum += compute(i, steps) + beside(what, i);
  sink = sum;
  outb(kExitPort, 0);
}
