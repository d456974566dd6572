#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "merge/report/tables.h"

namespace trapline {
namespace {

constexpr std::uint8_t kGoes = 1;  // shares, where a terminal is narrow

HaltCostRow halt_cost_row(const HaltTracker::Thread& costs) {
  HaltCostRow row;
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

std::vector<HaltCostRow> halt_cost_rows(const Naming& names) {
  std::vector<HaltCostRow> rows;
  const std::vector<VcpuTotalsOf> totals = names.pipeline.vcpus();
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const VcpuThread& vcpu = names.threads[i];
    const HaltTracker::Thread* thread = names.pipeline.halts()->find(vcpu.thread);
    if (thread == nullptr || !names.pipeline.counts(vcpu.thread)) continue;
    HaltCostRow& row = rows.emplace_back(halt_cost_row(*thread));
    row.vcpu = vcpu.vcpu;
    row.exits = totals[i].totals.exits;
    row.vm = names.vms[i].id();
    row.vm_name = names.vms[i].given;
    row.halted_ns = totals[i].totals.parts[static_cast<std::size_t>(Part::kHalted)];
    row.time_ns = totals[i].totals.time_ns();
  }
  std::ranges::sort(rows, {}, [](const auto& row) { return std::tie(row.vm, row.vcpu); });
  return rows;
}

Table halt_cost_table(const Report& report) {
  using Row = HaltCostRow;
  const std::span<const Row> rows = *report.halt_costs;
  const bool cycles = report.cycles;
  const auto polling = [](const Row& row) -> CellValue {
    const bool known = row.halts + row.wakes_unknown != row.halts_unknown;
    return known ? Share{row.polling_ns, row.time_ns, row.halts_bounded != 0} : CellValue();
  };
  TableOf<Row> table(rows, [with_vm = shows_vms(report)](const Row& row) {
    return vcpu_of_vm_text(row.vm, row.vm_name, row.vcpu, with_vm);
  });
  table.add({"vm"}, &Row::vm);
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"exits", "exits"}, &Row::exits);
  table.add({"halt_exits", "halts"}, &Row::halt_exits);
  table.add({"", "of exits", Unit::kShare, 0, kGoes}, [](const Row& row) {
    return Share{row.halt_exits, row.exits};
  });
  table.add({"halted_ns", "halted", Unit::kDuration}, &Row::halted_ns);
  table.add({"", "of time", Unit::kShare, 0, kGoes}, [](const Row& row) {
    return Share{row.halted_ns, row.time_ns};
  });
  table.add({"", "polled", Unit::kNanoseconds}, polling);
  table.add({"", "of time", Unit::kShare, 0, kGoes},
            [=](const Row& row) { return cycles ? CellValue() : polling(row); });
  table.add({"polling_ns"}, polling);
  table.add({"polling_bounded"}, &Row::halts_bounded);
  table.add({"polling_unknown"}, &Row::halts_unknown);
  if (!report.knows(State::kHalted)) {
    for (const char* of_halts : {"exits", "halt_exits", "halted_ns"}) forget(table, of_halts);
    for (Table::Described& column : table.columns)
      if (column.key.empty()) column.value = [](std::size_t) { return CellValue(); };
  }
  return table;
}

std::vector<ReplayRow> replay_rows(const HaltCostRow& costs) {
  std::vector<ReplayRow> rows;
  for (const HaltReplays::Row& setting : costs.replay)
    rows.push_back({costs.vm, costs.vcpu, setting, costs.late_ns, costs.time_ns});
  return rows;
}

Table replay_table(std::span<const ReplayRow> rows) {
  using Row = ReplayRow;
  TableOf<Row> table(rows, [](const Row& row) {
    const std::uint64_t ns = row.setting.halt_poll_ns;
    if (ns == 0) return std::string("0 (off)");
    return fmt::format("{}{}", ns,
                       ns == 200'000   ? " (default on x86)"
                       : ns == 500'000 ? " (arm64)"
                                       : "");
  });
  const auto add = [&](Column column, auto get) {
    table.add(std::move(column), [get](const Row& row) { return get(row.setting); });
  };
  table.add({.key = "vm", .json = false}, &Row::vm);
  table.add({.key = "vcpu", .json = false},
            [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  add({"halt_poll_ns"}, [](const HaltReplays::Row& row) { return row.halt_poll_ns; });
  add({"won", "won"}, [](const HaltReplays::Row& row) { return row.won; });
  add({"lost", "lost"}, [](const HaltReplays::Row& row) { return row.lost; });
  add({"polling_ns", "polled", Unit::kNanoseconds},
      [](const HaltReplays::Row& row) { return row.polling_ns; });
  table.add({"", "of time", Unit::kShare, 0, kGoes}, [](const Row& row) {
    return Share{row.setting.polling_ns, row.time_ns};
  });
  add({"late_ns", "wake-ups", Unit::kNanoseconds, 0, kGoes},
      [](const HaltReplays::Row& row) { return row.late_ns; });
  table.add({"saved_ns", "saved", Unit::kNanoseconds}, [](const Row& row) {
    return static_cast<std::int64_t>(row.late_ns - row.setting.late_ns);
  });
  return table;
}

}  // namespace trapline
