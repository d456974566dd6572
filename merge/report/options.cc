#include "merge/report/options.h"

#include <algorithm>

namespace trapline {

Result<SortBy> parse_sort(std::string_view text) {
  const auto* const name = std::ranges::find(kSortNames, text);
  if (name != kSortNames.end()) return static_cast<SortBy>(name - kSortNames.begin());
  return fail(ErrorKind::kUsage, "--sort: unknown '{}'; there are {}", text,
              fmt::join(kSortNames, ", "));
}

}  // namespace trapline
