// What a command has to know of a recording before it reads it for its result.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "merge/model/exit_span.h"
#include "merge/pass/exit_matcher.h"
#include "merge/pass/feed.h"
#include "merge/pass/selection.h"
#include "merge/session/input.h"

namespace trapline {

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
