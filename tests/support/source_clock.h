// What clocks::align() needs of one recording, as Recordings makes it.
#pragma once

#include "merge/session/open.h"

namespace trapline::test {

[[nodiscard]] inline clocks::SourceClock clock_with_syncs(const std::string& path) {
  const auto source = open_source(path, {}).value();
  clocks::SourceClock clock = clock_of(source->describe());
  if (const auto range = source->range())
    clock.interval = clocks::Interval{range->first.ns(), range->second.ns()};
  if (!add_known_evidence(clock).value()) add_evidence(collect(*source, {}), clock);
  return clock;
}

}  // namespace trapline::test
