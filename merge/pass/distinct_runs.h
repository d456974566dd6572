// A run counts once: given twice, it would look like two that agree, or like twice the work.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/source/timeline.h"

namespace trapline {

// A run, by what a copy of its recording has as well.
struct RunGiven {
  std::string path;
  std::uint64_t begin_ns = 0, end_ns = 0, events = 0, exits = 0;
};

// An Error names two recordings that hold the same run.
[[nodiscard]] Result<void> check_distinct(std::span<const RunGiven> runs);
// Of the sources of one kind that lie on the timeline; call when it was read.
[[nodiscard]] Result<void> check_distinct(const Timeline& timeline);

}  // namespace trapline
