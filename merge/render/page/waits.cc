#include "merge/render/page/waits.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "merge/report/grouping.h"

namespace trapline::page {

void Waits::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (!bins_.started) bins_.start(pipeline.begin().value_or(exit.start));
  for (const WaitShare& share : pipeline.waits()->shares()) add(share);
}

void Waits::add(const WaitShare& share) {
  auto& sums = share.part == Part::kBlocked ? blocked_ : preempted_;
  if (share.length() != 0) {
    while (bins_.bin(share.end.ns() - 1) >= kMostBins) coarsen();
  }
  Sum& sum = bounded(sums, share.culprit, kMostCulprits, unknown_for(Missing::kRoom));
  sum.ns += share.length();
  ++sum.count;
  sum.max_ns = std::max(sum.max_ns, share.length());
  bins_.each(share.begin, share.end, [&sum](std::size_t bin, std::uint64_t ns) {
    if (sum.time.size() <= bin) sum.time.resize(bin + 1);
    sum.time[bin] += ns;
  });
}

void Waits::coarsen() {
  for (auto* sums : {&preempted_, &blocked_}) {
    for (auto& [culprit, sum] : *sums)
      sum.time = bins_.doubled(sum.time, [](auto& to, std::uint64_t from) { to += from; });
  }
  ++bins_.shift;
}

namespace {

// Returns pairs of numbers: how many bins to advance, and ns.
std::vector<std::uint64_t> steps_of(const std::vector<std::uint64_t>& time) {
  std::vector<std::uint64_t> steps;
  std::size_t last = 0;
  for (std::size_t bin = 0; bin < time.size(); ++bin) {
    if (time[bin] == 0) continue;
    steps.push_back(bin - std::exchange(last, bin));
    steps.push_back(time[bin]);
  }
  return steps;
}

}  // namespace

Table Waits::table(const char* key, const std::map<Culprit, Sum>& sums, const Naming& names) {
  struct Row {
    std::string culprit, vm;
    const Sum* sum;
  };
  std::vector<Row> rows;
  std::uint64_t total = 0;
  for (const auto& [culprit, sum] : sums) {
    const bool thread = culprit.is_thread();
    rows.push_back({names.text(culprit), thread ? names.vm(culprit.thread) : std::string(), &sum});
    total += sum.ns;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.sum->ns, a.culprit, a.vm) < std::tie(a.sum->ns, b.culprit, b.vm);
  });
  const States known = names.pipeline.exits().known_states();
  const bool is_known = known[static_cast<std::size_t>(State::kPreempted)];
  TableOf<Row> table({.key = key, .left_out = keep_first(rows, kMostRows)}, std::move(rows),
                     &Row::culprit);
  table.facts = {{"total_ns", is_known ? to_value(total) : CellValue()}};
  table.add({"culprit"}, &Row::culprit);
  table.add({"vm"}, [](const Row& row) { return text_or_null(row.vm); });
  table.add({"ns"}, [](const Row& row) { return row.sum->ns; });
  table.add({"count"}, [](const Row& row) { return row.sum->count; });
  table.add({"max_ns"}, [](const Row& row) { return row.sum->max_ns; });
  table.add({"time"}, [](const Row& row) { return steps_of(row.sum->time); });
  return table;
}

std::vector<Table> Waits::tables(const Naming& names) const {
  return {table("preempted", preempted_, names), table("blocked", blocked_, names)};
}

}  // namespace trapline::page
