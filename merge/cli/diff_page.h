// trapline diff --format html: both sides on one page.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/report/compare_run.h"

namespace trapline::cli {

// Whether there can be a page: an Error says what to change.
[[nodiscard]] Result<void> check_diff_page(const SideOptions& sides);

// The page's data: both recordings, each read once more, and the comparison.
[[nodiscard]] Result<std::string> diff_page(const SideOptions& sides, const Comparison& comparison,
                                            const Progress& progress);

}  // namespace trapline::cli
