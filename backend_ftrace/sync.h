// Sync records: marker texts that relate every readable clock to the stamp that the kernel gives
// the marker. docs/formats/sync.md has the grammar and an example.
//
//   marker 0:  before(0)                    stamp(0) lies in [before(0), after(0)]
//   marker 1:  before(1)  after(0)          on every clock
//   ...
//   marker n:             after(n-1)        ends the series
//
// This file allocates nothing; the marker writer, the recorder and the plugin share it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backend_ftrace/clock.h"
#include "backend_ftrace/clock_adjustment.h"

namespace trapline {

// One reading of all readable clocks, indexed by ClockId, in ns (ticks for the TSC); 0: not read.
struct ClockReadings {
  std::array<std::uint64_t, kReadableClocks> values{};
  [[nodiscard]] std::uint64_t at(ClockId clock) const {
    return values[static_cast<std::size_t>(clock)];
  }
};

[[nodiscard]] ClockReadings read_clocks();

struct SyncRecord {
  std::uint64_t series = 0;             // distinguishes the series of one recording
  std::uint32_t index = 0;              // position of the marker in its series
  std::optional<ClockReadings> before;  // taken just before this marker was written
  std::optional<ClockReadings> after;   // taken just after marker index - 1 was written
  std::optional<ClockAdjustment> adjustment = std::nullopt;  // set in the first record of a series
};

inline constexpr std::string_view kSyncPrefix = "trapline: sync 1 ";
inline constexpr std::size_t kMaxSyncText = 512;
inline constexpr unsigned kSyncTries = 16;

// Writes the record's text without a newline. Returns its length in bytes.
std::size_t format_sync(const SyncRecord& record, char (&text)[kMaxSyncText]);

// Parses a record's text and skips unknown clocks. Returns nullopt when the text is no record or is
// damaged.
[[nodiscard]] std::optional<SyncRecord> parse_sync(std::string_view text);

// Produces the texts of one series:
//   while (size = series.next(text)) { write(text, size); series.written(); }
class SyncSeries {
 public:
  explicit SyncSeries(unsigned tries = kSyncTries);
  // Writes the next record into `text` and returns its length; 0 when the series is complete.
  [[nodiscard]] std::size_t next(char (&text)[kMaxSyncText]);
  void written();

 private:
  SyncRecord record_;
  unsigned tries_;
};

// A moment with a stamp on the recording's clock and, for every other clock, a reading before and
// one after it.
struct SyncPoint {
  std::uint64_t stamp = 0;
  ClockReadings before;
  ClockReadings after;
  std::optional<ClockAdjustment> adjustment = std::nullopt;
  [[nodiscard]] std::uint64_t width(ClockId clock) const {
    return after.at(clock) - before.at(clock);
  }
};

// Pairs the records of one recording, which come in the order of their stamps, into brackets.
class SyncCollector {
 public:
  // Returns the bracket that this record closes: the stamp of the marker before it, between two
  // readings of the clocks. The narrowest of a series is the best. A lost marker costs its own
  // bracket and the one before.
  [[nodiscard]] std::optional<SyncPoint> add(const SyncRecord& record, std::uint64_t stamp);

 private:
  SyncRecord open_;
  std::optional<ClockAdjustment> adjustment_;  // from the series of the open record
  std::uint64_t open_stamp_ = 0;
  bool is_open_ = false;
};

// Returns whether bracket `a` is narrower than `b` on CLOCK_MONOTONIC.
[[nodiscard]] inline bool narrower(const SyncPoint& a, const SyncPoint& b) {
  return a.width(ClockId::kMono) < b.width(ClockId::kMono);
}

}  // namespace trapline
