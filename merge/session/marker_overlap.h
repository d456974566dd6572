// The plugin's output=both: the same calls in trace_marker and in a uftrace directory. Each is to
// count once, and a difference between the two is told.
#pragma once

#include <optional>
#include <string>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct MarkerOverlap {
  bool use_markers = true;  // else the directory: it has more of the calls
  std::string note;
};

// Compares the calls of a trace.dat's markers with those of a directory, function by function:
// entries and returns. Nothing where the trace.dat has no calls, or those of another run: where
// both name their run ("# run:" in sync.txt, `run=` in the markers) by that, else where no function
// is in both. Reads both to their end.
[[nodiscard]] Result<std::optional<MarkerOverlap>> compare_marker_calls(
    const std::string& trace_dat, const std::string& directory);

}  // namespace trapline
