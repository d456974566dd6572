// Brings recordings onto one timeline: describes them, collects evidence of their clocks, aligns
// and opens them.
#pragma once

#include <vector>

#include "merge/session/input.h"
#include "merge/session/open.h"

namespace trapline {

// Adds the sources of these recordings to `input`, and what the recordings say about themselves.
[[nodiscard]] Result<void> open_recordings(const InputOptions& options, Input& input,
                                           const std::vector<RecordingPart>& parts);

}  // namespace trapline
