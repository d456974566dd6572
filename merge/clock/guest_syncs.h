// Places guest sync records, from sync.txt or from markers of a guest's recording, on a clock.
// Pure; merge/source/uftrace/sync_file.h reads the files. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/guest_sync.h"
#include "merge/clock/assumption.h"
#include "merge/clock/guest_bounds.h"
#include "merge/clock/sync_points.h"

namespace trapline {

// Gathers guest sync records from the markers of the guest's own recording, in the recording's
// order. A marker that was itself the action also relates the recording's clock to the clock of the
// readings.
class GuestSyncMarkers {
 public:
  void add(std::uint64_t stamp, std::string_view text);
  [[nodiscard]] const std::vector<GuestSyncLine>& lines() const { return lines_; }
  [[nodiscard]] std::vector<clocks::SyncEntry> clocks() const;

 private:
  std::vector<GuestSyncLine> lines_;
  std::vector<std::pair<std::uint64_t, GuestSyncRecord>> actions_;  // by stamp
};

// The clock of a recording, of a guest or its host.
struct StampClock {
  std::string name;
  bool cycles = false;
  std::optional<double> rate_change_ppm = std::nullopt;  // as for align()
  // Returns the clock, if a guest can read it: not a TSC whose values were converted to nanoseconds
  // (TSC2NSEC of trace.dat, or --tsc-khz).
  [[nodiscard]] std::optional<ClockId> readable() const {
    const auto id = clock_from_name(name);
    return id == ClockId::kTsc && !cycles ? std::nullopt : id;
  }
  [[nodiscard]] clocks::Drive drive() const {
    return cycles ? clocks::Drive::kCounter : clocks::drive_of(name);
  }
};
// Places the readings on the clock of the guest's records, and adds them to `bounds`.
//
//   clock of the records    a reading is
//   that of the readings    itself
//   the TSC, in cycles      its counter
//   another                 placed by the brackets between the two, and widened by their error
//
// Returns an Error if nothing aligns the two clocks.
[[nodiscard]] Result<void> add_readings(GuestBounds& bounds,
                                        const std::vector<GuestSyncLine>& lines,
                                        const StampClock& stamps,
                                        const std::vector<clocks::SyncEntry>& brackets);

// Converts bounds on one of the host's clocks to its recording's clock by the recording's own sync
// records. Empty if these do not contain the clock; an Error if the clock was set, slewed or
// suspended.
[[nodiscard]] Result<std::vector<ClockBound>> bounds_through(
    ClockId clock, const std::vector<ClockBound>& bounds,
    const std::vector<clocks::SyncEntry>& brackets, const StampClock& stamps);

// Returns how the guest's kernel was adjusting its clocks, from the note in each series of its sync
// records.
[[nodiscard]] std::vector<clocks::NotedAdjustment> noted_in(
    const std::vector<GuestSyncLine>& lines);

}  // namespace trapline
