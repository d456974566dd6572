// A frame as one line of JSON. docs/top.md lists its fields; rows have those of a report's.
#pragma once

#include <string>

#include "merge/live/rows.h"

namespace trapline::live {

struct BatchOptions {
  std::vector<Dimension> by;
  std::string by_text;
  Scope scope;
  ExitFilter exits;    // that the frames have
  std::string chosen;  // "--vm web01 --reason io"; empty: all
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;   // rows; 0: all
  std::size_t slow = 5;  // slow exits
};

// Without the line's end.
[[nodiscard]] std::string batch_line(const Frame& frame, const BatchOptions& options,
                                     const Engine& engine);

}  // namespace trapline::live
