#include <algorithm>
#include <tuple>

#include "merge/analyze/halts.h"
#include "merge/report/common_columns.h"
#include "merge/report/tables.h"

namespace trapline {

void fill_halts(Report& report, const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  auto& rows = report.halts.emplace();
  for (const auto& [thread, state] : pipeline.halts()->threads()) {
    if (!state.is_vcpu || !pipeline.counts(thread)) continue;
    rows.push_back({names.vcpus.number(thread), names.vcpus.vm_id(thread),
                    names.vcpus.vm_name(thread), state.polls_won, state.slept, state.wake_to_run,
                    state.invalid});
  }
  std::ranges::stable_sort(rows, {}, [](const auto& row) { return std::tie(row.vm, row.vcpu); });
}

Table halt_table(const Report& report) {
  const std::vector<HaltRow>& rows = *report.halts;
  TableOf<HaltRow> table(rows, [with_vm = shows_vms(report)](const HaltRow& row) {
    return vcpu_of_vm_text(row.vm, row.vm_name, row.vcpu, with_vm);
  });
  table.add({"vm"}, &HaltRow::vm);
  table.add({"vm_name"}, [](const HaltRow& row) { return text_or_null(row.vm_name); });
  table.add({"vcpu"}, [](const HaltRow& row) { return number_or_null(row.vcpu, kNoVcpu); });
  add_distribution(table, "polls_won", {.count = "polls won", .p50 = "p50"}, &HaltRow::polls_won);
  add_distribution(table, "slept", {.count = "slept", .p50 = "p50", .p99 = {"p99", 1}},
                   &HaltRow::slept);
  add_distribution(table, "wake_to_run", {.p50 = "wake-up p50", .p99 = {"p99", 2}},
                   &HaltRow::wake_to_run);
  table.add({"invalid"}, &HaltRow::invalid);
  const bool told = std::ranges::any_of(rows, [](const HaltRow& row) {
    return row.polls_won.count() + row.slept.count() + row.invalid != 0;
  });
  if (!told)
    for (const char* of_wakeup : {"polls_won", "slept", "invalid"}) forget(table, of_wakeup);
  if (!report.model.sched_switch || !report.model.wakeups) forget(table, "wake_to_run");
  return table;
}

}  // namespace trapline
