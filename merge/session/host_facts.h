// The facts that a session has about the host that it was recorded on (wall clock, boot) and about
// how it was recorded.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/clock/sync_points.h"
#include "merge/model/wall_clock.h"
#include "merge/source/source.h"

namespace trapline {

// Computes the wall clock as a line through the first sync record and the last that have
// CLOCK_REALTIME before and after their markers; nullopt if there is none. A session has one sync
// record of each series, the narrowest.
[[nodiscard]] std::optional<WallClock> wall_clock_of(std::vector<clocks::SyncEntry> entries);

struct HostFacts {
  std::optional<WallClock> wall_clock;
  std::string boot_id;  // empty: not known
  // "command", "trapline version", "QEMU version": those that are known.
  std::vector<std::pair<std::string, std::string>> of_session;
};
// Returns the facts for the recording that leads the timeline, from a session.json beside it.
[[nodiscard]] HostFacts host_facts_of(const Source& leading);

}  // namespace trapline
