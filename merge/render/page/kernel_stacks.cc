#include "merge/render/page/kernel_stacks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "merge/report/report_data.h"

namespace trapline::page {

Table kernel_stack_table(const KernelStacks& stacks, const Naming& names) {
  FoldedTimes times;
  stacks.each(names, [&times](const std::string& stack, std::uint64_t ns) { times[stack] += ns; });
  std::uint64_t rest = 0;
  if (const auto other = times.extract(std::string(ReportData::kFoldedKey))) rest = other.mapped();
  using Row = std::pair<std::string, std::uint64_t>;
  std::vector<Row> order(times.begin(), times.end()), rows;
  std::ranges::stable_sort(order, std::greater<>(), &Row::second);
  for (Row& row : order) {
    // A clipped stack would name another one.
    if (rows.size() < kMostKernelRows && row.first.size() <= kLongestKernelStack) {
      rows.push_back(std::move(row));
    } else {
      rest += row.second;
    }
  }
  if (rest != 0) rows.emplace_back(ReportData::kFoldedKey, rest);
  TableOf<Row> table(std::move(rows), &Row::first);
  table.key = "kernel_stacks";
  table.packed = true;
  table.add({"stack"}, &Row::first);
  table.add({"ns"}, &Row::second);
  return table;
}

}  // namespace trapline::page
