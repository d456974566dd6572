#include "merge/report/halt_cost_report.h"

#include <algorithm>
#include <tuple>

namespace trapline {
namespace {

HaltCostRow halt_cost_row(const HaltCosts::Thread& costs) {
  HaltCostRow row;
  row.exits = costs.exits;
  row.halt_exits = costs.halt_exits;
  row.polling_ns = costs.polling_ns + costs.polling_at_most_ns;
  row.halts_bounded = costs.halts_bounded;
  row.halts_unknown = costs.halts_unknown;
  row.halts = costs.replays.halts();
  row.wakes_unknown = costs.wakes_unknown;
  row.late_ns = costs.replays.late_ns();
  row.halves = costs.replays.halves();
  row.saw_shrinking = costs.replays.saw_shrinking();
  row.replay = costs.replays.rows(row.halves);
  return row;
}

}  // namespace

std::vector<HaltCostRow> halt_cost_rows(const HaltCosts& costs, const Naming& names) {
  std::vector<HaltCostRow> rows;
  const std::vector<VcpuTotalsOf> totals = names.pipeline.vcpus();
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const VcpuThread& vcpu = names.threads[i];
    const HaltCosts::Thread* thread = costs.find(vcpu.thread);
    if (thread == nullptr || !names.pipeline.counts(vcpu.thread)) continue;
    HaltCostRow& row = rows.emplace_back(halt_cost_row(*thread));
    row.vcpu = vcpu.vcpu;
    row.vm = names.vms[i].id();
    row.halted_ns = totals[i].totals.parts[static_cast<std::size_t>(Part::kHalted)];
    row.time_ns = totals[i].totals.time_ns();
  }
  std::sort(rows.begin(), rows.end(), [](const HaltCostRow& a, const HaltCostRow& b) {
    return std::tie(a.vm, a.vcpu) < std::tie(b.vm, b.vcpu);
  });
  return rows;
}

}  // namespace trapline
