#include "merge/render/page/kernel_stacks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "merge/render/tables.h"
#include "merge/report/report.h"

namespace trapline::page {

Json kernel_stacks_json(const KernelStacks& stacks, const Naming& names) {
  FoldedTimes times;
  stacks.each(names, [&times](const std::string& stack, std::uint64_t ns) { times[stack] += ns; });
  std::uint64_t rest = 0;
  if (const auto other = times.extract(std::string(Report::kFoldedKey))) rest = other.mapped();
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
  if (rest != 0) rows.emplace_back(Report::kFoldedKey, rest);
  TableOf<Row> table(rows, &Row::first);
  table.add({"stack"}, &Row::first);
  table.add({"ns"}, &Row::second);
  return packed_json(table);
}

}  // namespace trapline::page
