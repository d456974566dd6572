#include "merge/report/steal_table.h"

#include <algorithm>
#include <tuple>

#include "merge/report/tables.h"

namespace trapline {

void StealTable::add(const EndedWait& wait) {
  Vcpu& vcpu = vcpus_[wait.thread];
  bool waited = false;
  for (const WaitShare& share : wait.shares) {
    if (share.part != Part::kPreempted) continue;
    const std::size_t before = vcpu.sums.size();
    vcpu.sums.add(share, sums_ < kMostSums ? CulpritSums::kMost : 0);
    sums_ += vcpu.sums.size() - before;
    waited = true;
  }
  if (waited) ++vcpu.waits;
}

std::vector<StealRow> StealTable::rows(const Naming& names) const {
  std::vector<StealRow> rows;
  for (const VcpuThread& vcpu : names.threads) {
    if (!names.pipeline.counts(vcpu.thread)) continue;
    StealRow row;
    row.vm = names.vcpus.vm_id(vcpu.thread);
    row.vm_name = names.vcpus.vm_name(vcpu.thread);
    row.vcpu = vcpu.vcpu;
    row.tid = static_cast<std::int32_t>(vcpu.thread);
    if (const auto found = vcpus_.find(vcpu.thread); found != vcpus_.end()) {
      row.waits = found->second.waits;
      row.by = found->second.sums.rows(names);
    }
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, {}, [](const auto& row) { return std::tie(row.vm, row.vcpu, row.tid); });
  return rows;
}

Table steal_table(const Report& report) {
  using Row = StealRow;
  TableOf<Row> table(*report.steal, [](const Row& row) { return vcpu_text(row.vcpu); });
  table.add({"vm"}, &Row::vm);
  table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, &Row::tid);
  table.add({"waits"}, [told = report.model.sched_switch](const Row& row) {
    return told ? to_value(row.waits) : CellValue();
  });
  return table;
}

}  // namespace trapline
