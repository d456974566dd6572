// When a recording begins and ends, from the first and the last page of each CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// The smallest and the largest stamp, as recorded. Nothing where there is no event. A page's own
// time counts as well as its events'.
[[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> time_range(
    const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
