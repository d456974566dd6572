// The demo guests' own sync records (docs/formats/sync.md): a device register is written between
// two of the magic no-ops. The host sees the exit by its value, the plugin stamps the no-ops, so
// the two clocks are related without an operating system in the guest.
#pragma once
#include "../../docs/examples/sync/trapline-noop.h"

enum { kSyncTries = 16 };

TRAPLINE_INLINE struct trapline_reading sync_reading(void) {
  struct trapline_reading reading = {0, trapline_counter()};
  return reading;
}

// `flags` is TRAPLINE_PORT or TRAPLINE_MMIO; `write` does it.
TRAPLINE_INLINE void sync_series(unsigned flags, uint32_t where,
                                 void (*write)(uint32_t where, uint32_t value)) {
  const uint32_t series = (uint32_t)trapline_counter();
  const struct trapline_reading none = {0, 0};
  struct trapline_reading after = none;
  for (unsigned i = 0; i < kSyncTries; ++i) {
    const uint32_t value = trapline_value(series, i);
    const unsigned both = flags | TRAPLINE_BEFORE | (i > 0 ? (unsigned)TRAPLINE_AFTER : 0);
    trapline_noop(trapline_header(series, i, both, TRAPLINE_NO_CLOCK), trapline_write(where, value),
                  sync_reading(), after);
    write(where, value);
    after = sync_reading();
  }
  trapline_noop(trapline_header(series, kSyncTries, TRAPLINE_AFTER, TRAPLINE_NO_CLOCK), 0, none,
                after);
}
