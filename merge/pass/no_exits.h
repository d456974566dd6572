// What is wrong with a recording that holds no VM exits, or none that ends or has a length.
#pragma once

#include "backend_ftrace/base/result.h"
#include "merge/source/timeline.h"

namespace trapline {

// Says which events it holds and how to record the right ones. Call when it was read.
[[nodiscard]] Error no_exits(const Timeline& timeline);
// Of ExitTracker::lacks_entries().
[[nodiscard]] Error no_entries(const Timeline& timeline);
// Of ExitModel::durations().
[[nodiscard]] Error no_durations(const Timeline& timeline);

}  // namespace trapline
