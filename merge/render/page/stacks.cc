#include "merge/render/page/stacks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"

namespace trapline::page {

GuestTime& GuestTimes::times(StackId stack) {
  if (stack >= stacks_.size()) stacks_.resize(stack + 1);
  return stacks_[stack];
}

void GuestTimes::account(Thread& thread, Timestamp at) {
  if (thread.in_guest && thread.stack != kNoStack && at > thread.mark)
    times(thread.stack).guest_ns += elapsed(thread.mark, at);
  thread.mark = std::max(thread.mark, at);
}

void GuestTimes::event(const Event& event, const Pipeline& pipeline) {
  if (!pipeline.has_guest_records()) return;
  if (const GuestRun* run = pipeline.exits().guest_run()) {
    if (Thread* thread = threads_.find(run->thread)) {
      account(*thread, run->end);
      thread->in_guest = false;
    }
  }
  const bool enters = std::holds_alternative<KvmEntry>(event.payload);
  if (std::holds_alternative<Lost>(event.payload)) {
    for (auto& entry : threads_.entries()) entry.state.in_guest = false;
    return;
  }
  if (!enters && !std::holds_alternative<KvmExit>(event.payload) &&
      !std::holds_alternative<GuestCall>(event.payload)) {
    return;
  }
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  account(*thread, event.at);
  if (enters) {
    thread->in_guest = true;
    thread->mark = event.at;
  }
  thread->stack = pipeline.stacks().stack_of(event.thread);
}

void GuestTimes::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (!pipeline.has_guest_records()) return;
  const StackId stack = pipeline.stack_of(exit);
  if (stack == kNoStack) return;
  times(stack).add({0, exit.parts});
}

Table GuestTimes::table(const Pipeline& pipeline) const {
  std::vector<StackId> order;
  for (StackId stack = 0; stack < stacks_.size(); ++stack)
    if (stacks_[stack].total() != 0) order.push_back(stack);
  std::stable_sort(order.begin(), order.end(), [this](StackId a, StackId b) {
    return stacks_[a].total() > stacks_[b].total();
  });
  struct Row {
    std::string stack;
    GuestTime times;
  };
  std::vector<Row> rows;
  GuestTime rest;
  for (const StackId stack : order) {
    if (rows.size() < kMostRows) {
      rows.push_back(
          {clipped(printable(pipeline.stacks().text(stack)), kLongestText), stacks_[stack]});
    } else {
      rest.add(stacks_[stack]);
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
