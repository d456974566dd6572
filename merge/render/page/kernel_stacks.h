// The kernel's time in exits, for the page's flame graph.
#pragma once

#include <cstddef>

#include "merge/render/report_json.h"
#include "merge/report/folded_stacks.h"

namespace trapline::page {

inline constexpr std::size_t kMostKernelStacks = std::size_t{1} << 14, kMostKernelRows = 400,
                             kLongestKernelStack = 2000;

// {"columns": …, "rows": …}, the stacks with the most time first; what is beyond those
// bounds is in "[other]", the last row. docs/formats/page.md.
[[nodiscard]] Json kernel_stacks_json(const KernelStacks& stacks, const Naming& names);

}  // namespace trapline::page
