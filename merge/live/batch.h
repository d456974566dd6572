// Formats a frame as one line of JSON. docs/top.md lists its fields; rows are like those of a
// report.
#pragma once

#include <string>

#include "merge/live/rows.h"

namespace trapline::live {

struct BatchOptions {
  std::vector<Dimension> by;
  std::string by_text;
  Scope scope;
  ExitFilter exits;    // the filter of the frames
  std::string chosen;  // the selection: "--vm web01 --reason io"; empty: all
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;   // number of rows; 0: all
  std::size_t slow = 5;  // number of slow exits
};

// Returns the line without its line end.
[[nodiscard]] std::string batch_line(const Frame& frame, const BatchOptions& options,
                                     const Engine& engine);

}  // namespace trapline::live
