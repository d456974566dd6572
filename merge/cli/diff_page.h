// trapline diff --format html: both sides on one page.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/cli/selection.h"
#include "merge/compare/compare_run.h"

namespace trapline::cli {

// The page's data: the first recording of each side, read once more, and the comparison of all.
[[nodiscard]] Result<std::string> diff_page(const SideOptions& sides, const SelectionOptions& which,
                                            const Comparison& comparison, const Progress& progress);

}  // namespace trapline::cli
