// The loop of every command that reads a recording: events from the timeline into the pipeline.
#pragma once

#include <cstdint>
#include <functional>

#include "merge/analyze/pipeline.h"
#include "merge/pass/distinct_runs.h"
#include "merge/source/timeline.h"

namespace trapline {

// Called now and then with the share of the input that was read, 0 to 1.
using Progress = std::function<void(double)>;
inline constexpr std::uint64_t kEventsPerProgress = 1u << 16;

// Until the timeline ends or fails (its status() tells), the pipeline needs no more, or `stop` says
// so. `progress` and `stop` may be empty; `shared` sees each event. Pipeline::finish() is the
// caller's.
void feed(Timeline& timeline, Pipeline& pipeline, const Progress& progress,
          const std::function<bool()>& stop = {}, SharedExits* shared = nullptr);
// Pipeline::finish(), where the recordings of the host's kernels end.
void finish(const Timeline& timeline, Pipeline& pipeline);

// The times of the first and the last event looked at: of the whole recordings, or of the interval
// that the user chose. Sources leave out events that nobody needs; these count all the same.
struct RecordedInterval {
  Timestamp begin, end;
};
[[nodiscard]] RecordedInterval recorded_interval(const Timeline& timeline,
                                                 const Pipeline& pipeline);

}  // namespace trapline
