// The kernel's time in exits, for the page's flame graph.
#pragma once

#include <cstddef>

#include "merge/report/folded_stacks.h"
#include "merge/report/table.h"

namespace trapline::page {

inline constexpr std::size_t kMostKernelStacks = std::size_t{1} << 14, kMostKernelRows = 400,
                             kLongestKernelStack = 2000;

// The stacks with the most time first; what is beyond those
// bounds is in "[other]", the last row. docs/formats/page.md.
[[nodiscard]] Table kernel_stack_table(const KernelStacks& stacks, const Naming& names);

}  // namespace trapline::page
