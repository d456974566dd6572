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

// The columns by which rows can be sorted, in the order of text; the last ones are the parts.
enum class SortBy : std::uint8_t {
  kShare,
  kTotal,
  kCount,
  kMean,
  kP50,
  kP90,
  kP99,
  kMax,
  kKey,
  kLargest,
  kGuest,
  kFirstPart
};
inline constexpr std::array<std::string_view, 16> kSortNames{
    "share", "total",   "exits", "mean",   "p50",  "p90",       "p99",     "max",
    "key",   "largest", "guest", "kernel", "user", "preempted", "blocked", "halted"};
// Parses a name of kSortNames. "count", "calls" and "requests" are kCount, a dimension is kKey.
[[nodiscard]] inline Result<SortBy> parse_sort(std::string_view text) {
  const auto* const name = std::ranges::find(kSortNames, text);
  if (name != kSortNames.end()) return static_cast<SortBy>(name - kSortNames.begin());
  if (text == "count" || text == "calls" || text == "requests") return SortBy::kCount;
  if (parse_dimensions(text)) return SortBy::kKey;
  return fail(ErrorKind::kUsage, "--sort: unknown '{}'; there are {}", text,
              fmt::join(kSortNames, ", "));
}
// Compares two rows of a report: the largest by `sort` comes first; without durations, counts stand
// for times. Rows of halts come last, because a halt is the guest's own waiting.
[[nodiscard]] inline bool comes_before(const GroupRow& a, const GroupRow& b, SortBy sort,
                                       bool durations) {
  if (a.halts != b.halts) return b.halts;
  const auto key = [=](const GroupRow& row) -> std::uint64_t {
    switch (sort) {
      case SortBy::kShare:
        return durations ? row.cost_ns() : row.count();
      case SortBy::kTotal:
        return durations ? row.total.total() + row.unended_cost_ns : row.count();
      case SortBy::kMean:
        return row.total.mean();
      case SortBy::kP50:
        return row.total.percentile(500).value_or(0);
      case SortBy::kP90:
        return row.total.percentile(900).value_or(0);
      case SortBy::kP99:
        return row.total.percentile(990).value_or(0);
      case SortBy::kMax:
        return row.total.max();
      case SortBy::kKey:
        return 0;
      case SortBy::kLargest:
        return row.largest_ns;
      case SortBy::kGuest:
        return row.guest_ns();
      case SortBy::kCount:
        return row.count();
      case SortBy::kFirstPart:  // and the parts after it
        break;
    }
    return row.parts[static_cast<std::size_t>(sort) - static_cast<std::size_t>(SortBy::kFirstPart)];
  };
  return key(a) > key(b);
}

struct ReportOptions {
  std::vector<Dimension> by = {Dimension::kReason};
  std::string by_text = "reason";
  bool by_default = false;  // nobody asked for `by`: without exits, functions replace it
  bool calls = false;       // calls of guest functions instead of exits: run_report() decides
  bool switches = false;    // the recording has sched_switch: run_report() decides
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;    // 0: all
  bool halts = false;     // --slower-than has halts as well: a reason was selected
  bool requests = false;  // --by span: requests instead of exits
  // The tables of table_kinds() that the user selected, by option, with the option's value.
  std::map<std::string, std::string, std::less<>> tables;
  std::vector<std::string> phases;  // the --phase options, for --phases
  bool rows = false;  // the tables are those of export --rows, with exactly its columns
  // True for a page, which has other tables too. A page names the program that made it (`tool`) and
  // the `command` that prints its report in a terminal: "report", FILE, ….
  bool page = false;
  std::string tool;
  std::vector<std::string> command;
  std::string recording;  // the recording and its selection, as the shell reads them

  [[nodiscard]] bool asks(std::string_view option) const { return tables.contains(option); }
};

}  // namespace trapline
