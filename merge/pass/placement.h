// Refuses a relation of clocks that the recordings contradict.
#pragma once

#include "backend_ftrace/base/result.h"
#include "merge/analyze/pipeline.h"
#include "merge/source/timeline.h"

namespace trapline {

// After the pass. An error names the log, how many of its events lie where they cannot, and the
// first of them with the run of the guest that it lies in.
[[nodiscard]] Result<void> check_placement(const Timeline& timeline, const Pipeline& pipeline);

}  // namespace trapline
