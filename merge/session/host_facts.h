// What a session tells of the host that it was recorded on, the wall clock and which boot it was,
// and of how it was recorded.
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

// Through the narrowest bracket of the first and of the last series. Nothing without a bracket that
// has CLOCK_REALTIME on both sides.
[[nodiscard]] std::optional<WallClock> wall_clock_of(std::span<const clocks::SyncEntry> entries);

struct HostFacts {
  std::optional<WallClock> wall_clock;
  std::string boot_id;  // empty: not known
  // "command", "trapline version", "QEMU version": those that are known.
  std::vector<std::pair<std::string, std::string>> of_session;
};
// Of the recording that leads the timeline, as far as a session.json beside it tells.
[[nodiscard]] HostFacts host_facts_of(const Source& leading);

}  // namespace trapline
