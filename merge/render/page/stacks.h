// The guest's own time, and the kernel's time in exits, by call stack, for the page's flame graphs.
#pragma once

#include <cstddef>

#include "merge/analyze/pipeline.h"
#include "merge/report/folded_stacks.h"
#include "merge/report/table.h"

namespace trapline::page {

inline constexpr std::size_t kMostGuestStacks = 400, kLongestGuestStack = 1000;

// Returns the stacks with the most time first; of more than kMostGuestStacks, the rest is in the
// last row, "[other]". docs/formats/page.md.
[[nodiscard]] Table guest_stack_table(const Pipeline& pipeline);

inline constexpr std::size_t kMostKernelStacks = std::size_t{1} << 14, kMostKernelRows = 400,
                             kLongestKernelStack = 2000;

// Returns the stacks with the most time first; the rest is in the last row, "[other]".
// docs/formats/page.md.
[[nodiscard]] Table kernel_stack_table(const KernelStacks& stacks, const Naming& names);

}  // namespace trapline::page
