#include "merge/report/kernel_table.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/tables.h"

namespace trapline {

void KernelTable::Sum::add(const Sum& other) {
  ns += other.ns;
  count += other.count;
  max_ns = std::max(max_ns, other.max_ns);
  total_ns += other.total_ns;
}

KernelTable::Sum& KernelTable::sum_of(const ExitSpan& exit, KernelWork work, NameId name) {
  return bounded(sums_, Key{exit.source, exit.reason, work, name}, kMost, other_);
}

// A function that calls itself has its total once.
void KernelTable::add(const ExitSpan& exit, const KernelTracker& kernel) {
  std::set<NameId> counted;
  for (const KernelShare& share : kernel.shares()) {
    sum_of(exit, share.work, share.name).add({share.ns, share.pieces, share.max_ns, 0});
    counted.clear();
    for (KernelStackId stack = share.stack; stack != 0; stack = kernel.frame(stack).parent) {
      const KernelFrame& frame = kernel.frame(stack);
      if (frame.work == KernelWork::kFunction && counted.insert(frame.name).second)
        sum_of(exit, frame.work, frame.name).total_ns += share.ns;
    }
  }
}

// Two numbers may have one name.
KernelReport KernelTable::report(const Naming& names, std::size_t top) const {
  std::map<std::pair<std::string, std::string>, Sum> rows;
  KernelReport report;
  for (const auto& [key, sum] : sums_) {
    const auto& [source, reason, work, name] = key;
    rows[{printable(reason_text(names.timeline.source(source), reason)),
          printable(kernel_work_text(work, names.names[name]))}]
        .add(sum);
    if (work == KernelWork::kUntraced) report.untraced_ns += sum.ns;
  }
  if (other_.count != 0) rows[{std::string(Report::kFoldedKey), "-"}].add(other_);
  for (const auto& [key, sum] : rows) {
    const auto total = sum.total_ns == 0 ? std::nullopt : std::optional(sum.total_ns);
    report.rows.push_back({key.first, key.second, sum.ns, total, sum.count, sum.max_ns});
    report.total_ns += sum.ns;
  }
  std::ranges::stable_sort(report.rows, std::greater<>(), &KernelRow::ns);
  report.rows_left_out = keep_first(report.rows, top);
  return report;
}

Table kernel_table(const KernelReport& kernel) {
  using Row = KernelRow;
  enum Goes : std::uint8_t { kMax = 1, kCount };
  TableOf<Row> table(kernel.rows, [](const Row& row) { return row.reason + ": " + row.part; });
  table.left_out = kernel.rows_left_out;
  table.add({"reason"}, &Row::reason);
  table.add({"part"}, &Row::part);
  table.add(
      {.key = "ns", .title = "time", .unit = Unit::kDuration, .stands_out = StandsOut::kLargest},
      &Row::ns);
  table.add({.title = "share", .unit = Unit::kShare}, [whole = kernel.total_ns](const Row& row) {
    return Share{row.ns, whole};
  });
  const bool functions =
      std::ranges::any_of(kernel.rows, [](const Row& row) { return row.total_ns.has_value(); });
  table.add({.key = "total_ns", .title = functions ? "with callees" : "", .unit = Unit::kDuration},
            &Row::total_ns);
  table.add({.key = "count", .title = "times", .goes = kCount}, &Row::count);
  table.add({.key = "max_ns", .title = "max", .unit = Unit::kDuration, .goes = kMax}, &Row::max_ns);
  return table;
}

}  // namespace trapline
