// Guest sync records: readings of a guest's clocks, taken before and after an action that the host
// sees too. docs/formats/sync.md has their text and meaning. `trapline sync` in the guest writes
// them. The plugin writes them for a magic no-op and puts its own stamp before each.
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

// The clocks that a guest can read at one moment: a clock of its kernel, and its cycle counter
// (TSC, CNTVCT, time). 0: not read.
struct GuestReading {
  std::uint64_t clock = 0;
  std::uint64_t counter = 0;
  friend bool operator==(const GuestReading&, const GuestReading&) = default;
};

// A write to a port or MMIO address that the host sees as an exit; `value` identifies the write.
struct GuestWrite {
  bool mmio = false;
  std::uint32_t where = 0;
  std::uint32_t value = 0;
  friend bool operator==(const GuestWrite&, const GuestWrite&) = default;
};

// One moment on the host's CLOCK_REALTIME and on two of the guest's clocks, as
// PTP_SYS_OFFSET_PRECISE returns it.
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
  ClockId clock = ClockId::kMono;  // the clock of the readings
  GuestCounter counter = GuestCounter::kTsc;
  bool marker = false;  // the record itself is the action: a marker, whose stamp is in the bracket
  std::optional<GuestWrite> write;
  std::optional<PtpReading> ptp;
  std::optional<GuestReading> before;
  std::optional<GuestReading> after;
  // How the guest's kernel adjusts its clock.
  std::optional<ClockAdjustment> adjustment = std::nullopt;
};

inline constexpr std::string_view kGuestSyncPrefix = "trapline: guest 1 ";

// Formats a record, without a newline.
[[nodiscard]] std::string format_guest_sync(const GuestSyncRecord& record);

// A record, with its stamp on the records' clock if the plugin gave one.
struct GuestSyncLine {
  std::optional<std::uint64_t> stamp;
  GuestSyncRecord record;
};

// Parses a record and skips unknown words. Returns nullopt when the text is no record or one of its
// numbers is damaged.
[[nodiscard]] std::optional<GuestSyncRecord> parse_guest_sync(std::string_view text);

// Decodes the six operands of the magic no-op (docs/plugin.md). Returns nullopt when they are no
// record: any program that executes the instruction chooses the operands.
[[nodiscard]] std::optional<GuestSyncRecord> guest_sync_of(const std::uint64_t (&operands)[6],
                                                           GuestCounter counter);

}  // namespace trapline
