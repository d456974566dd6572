// What a command has to know of a recording before it reads it for its result.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "merge/model/exit_span.h"
#include "merge/pass/feed.h"
#include "merge/session/input.h"

namespace trapline {

// Which vCPUs count. Both are known for certain only when the recording was read.
struct VcpuFilter {
  std::optional<std::int32_t> vcpu;
  std::string vm;  // its name, or the process id, "~" in front where inferred
  [[nodiscard]] bool empty() const { return !vcpu && vm.empty(); }
};

struct LookFor {
  VcpuFilter filter;
  bool longest =
      false;  // the longest exit that is no halt, of the vCPUs that the filter lets through
  std::string reason = {};  // a pattern: the longest with this reason, halts included
};

struct FirstLook {
  std::optional<std::set<ThreadId>> threads;  // that the filter lets through; nothing: all
  std::optional<ExitSpan> longest;
};

struct LookedAt {
  Input input;  // not read yet
  FirstLook found;
};

// Opens the input and looks for these in the pass that gathers evidence of clocks, so that the
// recording is read once before it is read for the result. Only where that pass does not see all
// that the timeline will yield (several recordings of kernels, a host whose clock is not the
// timeline's, sessions without exits) it costs a pass of its own. Without anything to look for it
// is open_input().
//
// Errors: those of open_input; a filter that nothing matches (says what there is); a recording
// without exits where the longest is wanted.
[[nodiscard]] Result<LookedAt> open_and_look(const InputOptions& options, const LookFor& wanted,
                                             const Progress& progress);

}  // namespace trapline
