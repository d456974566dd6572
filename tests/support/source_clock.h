// The evidence in one recording, and what clocks::align() needs of it, as Recordings makes them.
#pragma once

#include "merge/session/open.h"

namespace trapline {

[[nodiscard]] inline CollectedEvidence collect(Source& source, const Collect& what) {
  Collector collector(what);
  for (Event event; source.next(event) == Read::kEvent;) collector.on(event);
  return collector.take();
}

}  // namespace trapline

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
