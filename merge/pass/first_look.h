// Finds facts about a recording that a command needs before the pass that computes its result.
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

// The loop of every command that reads a recording: events go from the timeline into the pipeline.

// A function that is called from time to time with the share of the input that was read, 0 to 1.
using Progress = std::function<void(double)>;
inline constexpr std::uint64_t kEventsPerProgress = 1u << 16;

// Reads until the timeline ends or fails (see its status()), the pipeline needs no more events, or
// `stop` returns true. `progress` and `stop` may be empty; `shared` gets each event. The caller
// must call Pipeline::finish().
void feed(Timeline& timeline, Pipeline& pipeline, const Progress& progress,
          const std::function<bool()>& stop = {}, SharedExits* shared = nullptr);
// Calls Pipeline::finish() with the end of the recordings of the host's kernels.
void finish(const Timeline& timeline, Pipeline& pipeline);

// The times of the first and the last event looked at: of the whole recordings, or of the interval
// that the user chose. Events that sources leave out because nobody needs them count too.
struct RecordedInterval {
  Timestamp begin, end;
};
[[nodiscard]] RecordedInterval recorded_interval(const Timeline& timeline,
                                                 const Pipeline& pipeline);

// The Errors for a recording without VM exits, or whose exits have no end or duration.

// Returns the Error for a recording without VM exits. It says which events the recording contains,
// and how to record the right ones. Call this after reading.
[[nodiscard]] Error no_exits(const Timeline& timeline);
// Returns the Error for ExitTracker::lacks_entries(): kvm_entry was not recorded.
[[nodiscard]] Error no_entries(const Timeline& timeline);
// Returns the Error for a recording whose exits have no durations (ExitModel::durations()).
[[nodiscard]] Error no_durations(const Timeline& timeline);

// Returns a function that names the reasons of a timeline's exits, as long as the timeline exists.
[[nodiscard]] ExitMatcher::SourceOf source_of(const Timeline& timeline);

struct LookFor {
  VcpuFilter vcpus;
  ExitFilter exits = {};  // for `longest` and `chosen`
  // Look for the longest exit of the selected vCPUs and exits; not a halt, unless a reason is
  // given.
  bool longest = false;
  bool chosen = false;  // look for the beginnings of the exits that `exits` lets through
  bool names = false;   // check whether `exits` lets any exit through
  // The end of the part that the command looks at: VMs have the names that they have there.
  std::optional<TimeSpec> to = std::nullopt;
  [[nodiscard]] bool wants_exits() const { return longest || chosen || (names && !exits.empty()); }
};

struct FirstLook {
  // The threads that LookFor::vcpus lets through; nullopt: all.
  std::optional<std::set<ThreadId>> threads;
  std::optional<ExitSpan> longest;
  bool lacks_entries = false;  // ExitTracker::lacks_entries()
  ChosenExits chosen;
};

struct LookedAt {
  Input input;  // not read yet
  FirstLook found;
};

// Opens the input and looks for what is wanted, in the pass that gathers evidence of clocks if
// possible, so that the recording is read only once before it is read for the result. An extra pass
// is needed only if the pass for clocks does not see everything that the timeline will return:
// several recordings of kernels; a host whose clock is not the timeline's; sessions without exits;
// exits selected by something that only a whole pass shows. If nothing is wanted, this is
// open_input().
//
// Errors: those of open_input; nothing matches the filter (says what exists); the recording has no
// exits although some are wanted.
[[nodiscard]] Result<LookedAt> open_and_look(const InputOptions& options, const LookFor& wanted,
                                             const Progress& progress);

}  // namespace trapline
