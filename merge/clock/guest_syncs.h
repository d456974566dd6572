// Guest sync records put on a clock: of sync.txt, and of markers of a guest's recording. Pure;
// their files are read by merge/source/uftrace/sync_file.h. docs/formats/sync.md.
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

// Gathers them from the markers of the guest's own recording, in its order. Those that were
// themselves the action tell how the recording's clock stands beside the readings'.
class GuestSyncMarkers {
 public:
  void add(std::uint64_t stamp, std::string_view text);
  [[nodiscard]] const std::vector<GuestSyncLine>& lines() const { return lines_; }
  [[nodiscard]] std::vector<clocks::SyncEntry> clocks() const;

 private:
  std::vector<GuestSyncLine> lines_;
  std::vector<std::pair<std::uint64_t, GuestSyncRecord>> actions_;  // by stamp
};

// Puts the readings on the clock of the guest's records.
//
//   clock of the records    a reading is
//   that of the readings    itself
//   the TSC, in cycles      its counter
//   another                 placed by the brackets between the two, and widened by their error
//
// An error where nothing aligns the two clocks.
struct StampClock {  // of a recording that has sync records
  std::string name;
  bool cycles = false;
  std::optional<double> rate_change_ppm = std::nullopt;  // AlignOptions
};
[[nodiscard]] Result<void> add_readings(GuestBounds& bounds,
                                        const std::vector<GuestSyncLine>& lines,
                                        const StampClock& stamps,
                                        const std::vector<clocks::SyncEntry>& brackets);

// Bounds on one of the host's clocks, put on its recording's by the recording's own sync records.
// Empty where it has none of that clock; an error where that was set, slewed or suspended.
[[nodiscard]] Result<std::vector<ClockBound>> bounds_through(
    ClockId clock, const std::vector<ClockBound>& bounds,
    const std::vector<clocks::SyncEntry>& brackets, const StampClock& stamps);

// How the guest's kernel adjusted its clocks, as each series of its sync records noted it.
[[nodiscard]] std::vector<clocks::NotedAdjustment> noted_in(
    const std::vector<GuestSyncLine>& lines);

}  // namespace trapline
