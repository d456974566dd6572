#include "merge/report/side_tables.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "merge/report/vcpu_names.h"

namespace trapline {

SideTablesPass::SideTablesPass(bool halts, std::optional<std::vector<PhaseSpec>> phases)
    : with_halts_(halts) {
  if (phases) phases_.emplace(std::move(*phases));
}

std::vector<SpanSink*> SideTablesPass::sinks(const Timeline& timeline, const Input&,
                                             const ReportOptions&) {
  timeline_ = &timeline;
  return {this};
}

void SideTablesPass::event(const Event& event, const Pipeline& pipeline) {
  if (phases_) phases_->event(event, pipeline);
  if (with_halts_ && !is_guest(event.machine)) halts_.on(event);
}

void SideTablesPass::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (phases_) phases_->exit(exit, pipeline);
}

void SideTablesPass::finish(const Pipeline& pipeline, const Aggregator&) {
  if (phases_) tables_.phases = phases_->report(pipeline, pipeline.end().ns());
  if (!with_halts_) return;
  auto& rows = tables_.halts.emplace();
  const std::vector<VcpuTotalsOf> totals = pipeline.exits().vcpus();
  const std::vector<VcpuThread> threads = vcpu_threads(totals, *timeline_);
  const std::vector<Vm> vms = find_vms(threads, pipeline.processes());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const HaltCosts::Thread* costs = halts_.find(threads[i].thread);
    if (costs == nullptr || !pipeline.counts(threads[i].thread)) continue;
    HaltCostRow& row = rows.emplace_back(halt_cost_row(*costs));
    row.vcpu = threads[i].vcpu;
    row.vm = vms[i].id();
    row.halted_ns = totals[i].totals.parts[static_cast<std::size_t>(Part::kHalted)];
    row.time_ns = totals[i].totals.time_ns();
  }
  std::sort(rows.begin(), rows.end(), [](const HaltCostRow& a, const HaltCostRow& b) {
    return std::tie(a.vm, a.vcpu) < std::tie(b.vm, b.vcpu);
  });
}

}  // namespace trapline
