#include "merge/render/page/stacks.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"

namespace trapline::page {

Table guest_stack_table(const Pipeline& pipeline) {
  const std::vector<GuestTime>& stacks = pipeline.stacks().by_stack();
  std::vector<StackId> order;
  for (StackId stack = kNoStack + 1; stack < stacks.size(); ++stack)
    if (stacks[stack].total() != 0) order.push_back(stack);
  std::ranges::stable_sort(order, std::greater(),
                           [&](StackId stack) { return stacks[stack].total(); });
  struct Row {
    std::string stack;
    GuestTime times;
  };
  std::vector<Row> rows;
  GuestTime rest;
  for (const StackId stack : order) {
    if (rows.size() < kMostGuestStacks) {
      rows.push_back(
          {clipped(printable(pipeline.stacks().text(stack)), kLongestGuestStack), stacks[stack]});
    } else {
      rest.add(stacks[stack]);
    }
  }
  if (rest.total() != 0) rows.push_back({std::string(ReportData::kFoldedKey), rest});
  TableOf<Row> table({.key = "guest_stacks", .packed = true}, std::move(rows), &Row::stack);
  table.add({"stack"}, &Row::stack);
  table.add({"guest_ns"}, [](const Row& row) { return row.times.guest_ns; });
  add_parts(table, States().set(), kNoParts, {}, 0, [](const Row& row) {
    return PartsOf{row.times.parts, row.times.total()};
  });
  return table;
}

Table kernel_stack_table(const KernelStacks& stacks, const Naming& names) {
  FoldedTimes times;
  stacks.each(names, [&times](const std::string& stack, std::uint64_t ns) { times[stack] += ns; });
  std::uint64_t rest = 0;
  if (const auto other = times.extract(std::string(ReportData::kFoldedKey))) rest = other.mapped();
  using Row = std::pair<std::string, std::uint64_t>;
  std::vector<Row> order(times.begin(), times.end()), rows;
  std::ranges::stable_sort(order, std::greater<>(), &Row::second);
  for (Row& row : order) {
    // Long stacks are left out, not clipped: a clipped one would name another stack.
    if (rows.size() < kMostKernelRows && row.first.size() <= kLongestKernelStack) {
      rows.push_back(std::move(row));
    } else {
      rest += row.second;
    }
  }
  if (rest != 0) rows.emplace_back(ReportData::kFoldedKey, rest);
  TableOf<Row> table({.key = "kernel_stacks", .packed = true}, std::move(rows), &Row::first);
  table.add({"stack"}, &Row::first);
  table.add({"ns"}, &Row::second);
  return table;
}

}  // namespace trapline::page
