// What a command has to know of a recording before it reads it for its result.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/exit_span.h"
#include "merge/pass/distinct_runs.h"
#include "merge/pass/exit_matcher.h"
#include "merge/pass/selection.h"
#include "merge/session/input.h"
#include "merge/source/timeline.h"

namespace trapline {

// The loop of every command that reads a recording: events from the timeline into the pipeline.

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

// What is wrong with a recording that holds no VM exits, or none that ends or has a length.

// Says which events it holds and how to record the right ones. Call when it was read.
[[nodiscard]] Error no_exits(const Timeline& timeline);
// Of ExitTracker::lacks_entries().
[[nodiscard]] Error no_entries(const Timeline& timeline);
// Of ExitModel::durations().
[[nodiscard]] Error no_durations(const Timeline& timeline);

// Names the reasons of a timeline's exits, as long as it is there.
[[nodiscard]] ExitMatcher::SourceOf source_of(const Timeline& timeline);

struct LookFor {
  VcpuFilter vcpus;
  ExitFilter exits = {};  // of `longest` and `chosen`
  // The longest exit of those vCPUs and exits; no halt, unless a reason is asked for.
  bool longest = false;
  bool chosen = false;  // when the exits began that `exits` lets through
  bool names = false;   // whether there are such exits
  [[nodiscard]] bool wants_exits() const { return longest || chosen || (names && !exits.empty()); }
};

struct FirstLook {
  std::optional<std::set<ThreadId>> threads;  // that the filter lets through; nothing: all
  std::optional<ExitSpan> longest;
  bool lacks_entries = false;  // ExitTracker::lacks_entries()
  ChosenExits chosen;
};

struct LookedAt {
  Input input;  // not read yet
  FirstLook found;
};

// Opens the input and looks for these in the pass that gathers evidence of clocks, so that the
// recording is read once before it is read for the result. Only where that pass does not see all
// that the timeline will yield (several recordings of kernels, a host whose clock is not the
// timeline's, sessions without exits; exits chosen by what only a whole pass tells) it costs a pass
// of its own. Without anything to look for it is open_input().
//
// Errors: those of open_input; a filter that nothing matches (says what there is); a recording
// without exits where some are wanted.
[[nodiscard]] Result<LookedAt> open_and_look(const InputOptions& options, const LookFor& wanted,
                                             const Progress& progress);

}  // namespace trapline
