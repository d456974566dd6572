/* Four devices, as small as they can be. An access is traced with the device's name, so that the
 * VM exit which carried it is the device's in a report. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "trace-vmm.h"
#include "vmm.h"

enum { kHpetConfiguration = 0x10, kHpetCounter = 0xf0 };

static int exit_status = -1;
static unsigned rtc_index;
static uint32_t hpet_enabled;

static void debugcon_write(uint64_t offset, uint64_t value) {
  (void)offset;
  trace_debugcon_char((int)value);
  putchar((int)value);
}

static void rtc_write(uint64_t offset, uint64_t value) {
  if (offset == 0) rtc_index = value & 0x7f;
}

static unsigned bcd(int value) { return (unsigned)(value / 10 * 16 + value % 10); }

static uint64_t rtc_read(uint64_t offset) {
  time_t now = time(NULL);
  struct tm parts;
  unsigned value = 0;
  if (offset == 0) return 0xff; /* the index cannot be read */
  gmtime_r(&now, &parts);
  switch (rtc_index) {
    case 0:
      value = bcd(parts.tm_sec);
      break;
    case 2:
      value = bcd(parts.tm_min);
      break;
    case 4:
      value = bcd(parts.tm_hour);
      break;
  }
  trace_rtc_get(rtc_index, value);
  return value;
}

/* 100 ticks each microsecond. */
static uint64_t hpet_read(uint64_t offset) {
  struct timespec now;
  uint64_t ticks;
  if (offset == kHpetConfiguration) return hpet_enabled;
  if (offset != kHpetCounter || !hpet_enabled) return 0;
  clock_gettime(CLOCK_MONOTONIC, &now);
  ticks = (uint64_t)now.tv_sec * 100000000u + (uint64_t)now.tv_nsec / 10;
  trace_hpet_counter(ticks);
  return ticks;
}

static void hpet_write(uint64_t offset, uint64_t value) {
  if (offset == kHpetConfiguration) hpet_enabled = value & 1;
}

static void exit_write(uint64_t offset, uint64_t value) {
  (void)offset;
  exit_status = (int)(value & 0x7f);
}

static const struct device {
  const char* name;
  bool is_port;
  uint64_t address, size;
  uint64_t (*read)(uint64_t offset);
  void (*write)(uint64_t offset, uint64_t value);
} devices[] = {
    {"debugcon", true, 0x402, 1, NULL, debugcon_write},
    {"rtc", true, 0x70, 2, rtc_read, rtc_write},
    {"debug-exit", true, 0x501, 1, NULL, exit_write},
    {"hpet", false, 0xfed00000, 0x400, hpet_read, hpet_write},
};

static const struct device* find(uint64_t address, bool is_port) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    const struct device* device = &devices[i];
    if (device->is_port == is_port && address - device->address < device->size) return device;
  }
  return NULL;
}

uint64_t device_read(uint64_t address, unsigned size, bool is_port) {
  const struct device* device = find(address, is_port);
  uint64_t value = 0;
  if (device != NULL && device->read != NULL) value = device->read(address - device->address);
  trace_vmm_device_read(address, value, size, device != NULL ? device->name : "unassigned");
  return value;
}

void device_write(uint64_t address, uint64_t value, unsigned size, bool is_port) {
  const struct device* device = find(address, is_port);
  trace_vmm_device_write(address, value, size, device != NULL ? device->name : "unassigned");
  if (device != NULL && device->write != NULL) device->write(address - device->address, value);
}

int device_exit_status(void) { return exit_status; }
