// For the plugin's output=both: the same calls are in trace_marker and in a uftrace directory. Each
// must count once, and a difference between the two is reported.
#pragma once

#include <optional>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"

namespace trapline {

struct MarkerOverlap {
  bool use_markers = true;  // false: use the directory, which has more of the calls
  std::string note;
};

// Compares the calls in a trace.dat's markers with those of a directory, function by function:
// entries and returns. Returns nullopt if the trace.dat has no calls, or calls of another run. If
// both name their run ("# run:" in sync.txt, `run=` in the markers), the names decide; otherwise
// the two must have a function in common. Reads both to their end.
[[nodiscard]] Result<std::optional<MarkerOverlap>> compare_marker_calls(
    const File& trace_dat, const std::string& directory);

}  // namespace trapline
