#include "merge/pass/feed.h"

#include <algorithm>

namespace trapline {
namespace {

constexpr std::uint64_t kEventsPerStop = 1u << 8;  // `stop` is asked now and then
static_assert(kEventsPerProgress % kEventsPerStop == 0);

}  // namespace

void feed(Timeline& timeline, Pipeline& pipeline, const Progress& progress,
          const std::function<bool()>& stop, SharedExits* shared) {
  Event event;
  for (std::uint64_t events = 1; timeline.next(event) == Read::kEvent && pipeline.push(event);
       ++events) {
    if (shared != nullptr) shared->on(event);
    if (events % kEventsPerStop != 0) continue;
    if (stop && stop()) return;
    if (events % kEventsPerProgress == 0 && progress) progress(timeline.progress());
  }
}

void finish(const Timeline& timeline, Pipeline& pipeline) {
  pipeline.finish(recorded_interval(timeline, pipeline).end);
}

RecordedInterval recorded_interval(const Timeline& timeline, const Pipeline& pipeline) {
  RecordedInterval interval{pipeline.begin().value_or(Timestamp()), pipeline.end()};
  for (std::size_t i = 0; i < timeline.size() && !pipeline.is_window(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    if (timeline.source(i).info().role != Role::kHostKernel || counters.events == 0) continue;
    interval.begin = std::min(interval.begin, counters.first);
    interval.end = std::max(interval.end, counters.last);
  }
  return interval;
}

}  // namespace trapline
