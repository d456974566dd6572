// What a report is asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/event.h"
#include "merge/report/dimensions.h"
#include "merge/report/phase_report.h"
#include "merge/report/report.h"

namespace trapline {

enum class SortBy : std::uint8_t { kTotal, kCount, kMean, kMax, kP99, kKey };
inline constexpr std::array<std::string_view, 6> kSortNames{"total", "count", "mean",
                                                            "max",   "p99",   "key"};
[[nodiscard]] Result<SortBy> parse_sort(std::string_view text);
// What rows are sorted by, the largest first; without durations their number stands for the total.
// `total` is a row's Histogram, or what has the same figures.
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

// The order of a report's rows: those of halts last, for they are the guest's own waiting.
[[nodiscard]] inline bool comes_before(const GroupRow& a, const GroupRow& b, SortBy sort,
                                       bool durations) {
  if (a.halts != b.halts) return b.halts;
  return measure(a.total, sort, durations) > measure(b.total, sort, durations);
}

struct ReportOptions {
  std::vector<Dimension> by = {Dimension::kReason};
  std::string by_text = "reason";
  bool by_default = false;  // nobody asked for it: a recording without exits has functions instead
  bool calls = false;       // calls of guest functions instead of exits: run_report() decides
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;  // 0: all
  std::optional<std::uint64_t> slower_than;
  bool requests = false;  // --by span: requests instead of exits
  bool irq = false, halt = false, guest = false, waits = false, steal = false;
  bool halt_costs = false;  // beside `halt`
  bool kernel = false;
  std::optional<std::vector<PhaseSpec>> phases;
  bool page = false;  // the report is that of a page, which has other tables beside it
};

}  // namespace trapline
