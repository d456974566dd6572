// Guest sync records: readings of a guest's clocks, bracketed by something that the other side sees
// too. Text and meaning: docs/formats/sync.md. Written by `trapline sync` in the guest and, for the
// magic no-op, by the plugin, which puts its own stamp before each.
//
//   record 0:  before(0)   action 0 (no-op, port or MMIO write, marker, PTP) lies between
//   record 1:  before(1)  after(0)                     before(0) and after(0), and between the
//   ...                                                plugin's stamps of records 0 and 1
//   record n:             after(n-1)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/clock.h"
#include "backend_ftrace/clock_adjustment.h"

namespace trapline {

// What a guest can read at one moment: a clock of its kernel, and its cycle counter (TSC, CNTVCT,
// time). 0: not read.
struct GuestReading {
  std::uint64_t clock = 0;
  std::uint64_t counter = 0;
  friend bool operator==(const GuestReading&, const GuestReading&) = default;
};

// A write that the host sees as an exit; `value` identifies it.
struct GuestWrite {
  bool mmio = false;
  std::uint32_t where = 0;
  std::uint32_t value = 0;
  friend bool operator==(const GuestWrite&, const GuestWrite&) = default;
};

// PTP_SYS_OFFSET_PRECISE: one moment on the host's CLOCK_REALTIME and on two of the guest's clocks.
struct PtpReading {
  std::uint64_t host_real = 0;
  std::uint64_t real = 0;
  std::uint64_t mono_raw = 0;
  friend bool operator==(const PtpReading&, const PtpReading&) = default;
};

enum class GuestCounter : std::uint8_t { kTsc, kCntvct, kTime };

struct GuestSyncRecord {
  std::uint32_t series = 0;
  std::uint32_t index = 0;
  ClockId clock = ClockId::kMono;  // of the readings
  GuestCounter counter = GuestCounter::kTsc;
  bool marker = false;  // this text is itself the action: a marker, whose stamp is in the bracket
  std::optional<GuestWrite> write;
  std::optional<PtpReading> ptp;
  std::optional<GuestReading> before;
  std::optional<GuestReading> after;
  std::optional<ClockAdjustment> adjustment = std::nullopt;  // of the guest's kernel
};

inline constexpr std::string_view kGuestSyncPrefix = "trapline: guest 1 ";

// Without a newline.
[[nodiscard]] std::string format_guest_sync(const GuestSyncRecord& record);

// A record, and its stamp on the records' clock where the plugin gave it one.
struct GuestSyncLine {
  std::optional<std::uint64_t> stamp;
  GuestSyncRecord record;
};

// Unknown words are skipped; nothing when the text is no record or a number in it is damaged.
[[nodiscard]] std::optional<GuestSyncRecord> parse_guest_sync(std::string_view text);

// What the six operands of the magic no-op say (docs/plugin.md); nothing when they are not those of
// a record: whoever executes the instruction may put anything there.
[[nodiscard]] std::optional<GuestSyncRecord> guest_sync_of(const std::uint64_t (&operands)[6],
                                                           GuestCounter counter);

}  // namespace trapline
