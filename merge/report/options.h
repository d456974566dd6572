// The options of a report.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/event.h"
#include "merge/report/dimensions.h"
#include "merge/report/groups.h"

namespace trapline {

enum class SortBy : std::uint8_t { kTotal, kCount, kMean, kMax, kP99, kKey };
inline constexpr std::array<std::string_view, 6> kSortNames{"total", "count", "mean",
                                                            "max",   "p99",   "key"};
[[nodiscard]] inline Result<SortBy> parse_sort(std::string_view text) {
  const auto* const name = std::ranges::find(kSortNames, text);
  if (name != kSortNames.end()) return static_cast<SortBy>(name - kSortNames.begin());
  return fail(ErrorKind::kUsage, "--sort: unknown '{}'; there are {}", text,
              fmt::join(kSortNames, ", "));
}
// Returns the figure that rows are sorted by, the largest first. Without durations, the count
// replaces the total. `total` is a row's Histogram, or a type with the same figures.
template <typename Total>
[[nodiscard]] std::uint64_t measure(const Total& total, SortBy sort, bool durations) {
  switch (sort) {
    case SortBy::kCount:
      return total.count();
    case SortBy::kMean:
      return total.mean();
    case SortBy::kMax:
      return total.max();
    case SortBy::kP99:
      return total.percentile(990).value_or(0);
    case SortBy::kKey:
      return 0;
    case SortBy::kTotal:
      break;
  }
  return durations ? total.total() : total.count();
}

// Compares two rows of a report. Rows of halts come last, because a halt is the guest's own
// waiting.
[[nodiscard]] inline bool comes_before(const GroupRow& a, const GroupRow& b, SortBy sort,
                                       bool durations) {
  if (a.halts != b.halts) return b.halts;
  if (sort == SortBy::kTotal && durations)
    return a.total.total() + a.unended_cost_ns > b.total.total() + b.unended_cost_ns;
  if (sort == SortBy::kTotal || sort == SortBy::kCount) return a.count() > b.count();
  return measure(a.total, sort, durations) > measure(b.total, sort, durations);
}

struct ReportOptions {
  std::vector<Dimension> by = {Dimension::kReason};
  std::string by_text = "reason";
  // Not chosen by the user: a recording without exits shows functions instead.
  bool by_default = false;
  bool calls = false;  // calls of guest functions instead of exits; run_report() decides
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;    // 0: all
  bool requests = false;  // --by span: requests instead of exits
  // The tables of table_kinds() that the user selected, by option, with the option's value.
  std::map<std::string, std::string, std::less<>> tables;
  std::vector<std::string> phases;  // the --phase options, for --phases
  // The report is for a page, which has other tables too: it contains the program that made it, and
  // the words that print it in a terminal: "report", FILE, ….
  bool page = false;
  std::string tool;
  std::vector<std::string> command;

  [[nodiscard]] bool asks(std::string_view option) const { return tables.contains(option); }
};

}  // namespace trapline
