#include "merge/report/options.h"

#include <utility>

namespace trapline {

Result<SortBy> parse_sort(std::string_view text) {
  constexpr std::pair<std::string_view, SortBy> kSorts[] = {
      {"total", SortBy::kTotal}, {"count", SortBy::kCount}, {"mean", SortBy::kMean},
      {"max", SortBy::kMax},     {"p99", SortBy::kP99},     {"key", SortBy::kKey}};
  for (const auto& [name, sort] : kSorts) {
    if (name == text) return sort;
  }
  return fail(ErrorKind::kUsage,
              "--sort: unknown '{}'; there are total, count, mean, max, p99, key", text);
}

}  // namespace trapline
