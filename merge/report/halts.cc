// --halt: how halts ended, the cost of polling, and the cost that other limits of polling would
// have had. docs/formats/report.md, "Halts".
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "merge/analyze/halts.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/kernel_events.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"

namespace trapline {
namespace {

// A vCPU with its halts. `totals` are set in rows of their cost alone.
struct HaltRow : VcpuId, HaltTracker::Thread {
  VcpuTotals totals{};
};

std::vector<HaltRow> halt_rows(const Naming& names) {
  std::vector<HaltRow> rows;
  const Pipeline& pipeline = names.pipeline;
  for (const auto& [thread, state] : pipeline.halts()->threads()) {
    if (!state.is_vcpu || !pipeline.counts(thread)) continue;
    rows.push_back({{thread, names.vcpus}, state, {}});
  }
  std::ranges::sort(rows, {}, &VcpuId::order);
  return rows;
}

Table halt_table(const ReportData& report, const Naming& names) {
  TableOf<HaltRow> table(
      {.key = "halts", .csv = true}, halt_rows(names),
      [with_vm = shows_vms(report)](const HaltRow& row) { return row.text(with_vm); });
  table.titles = {"Halts"};
  add_vcpu(table, false);
  add_distribution(table, "polls_won", {.count = "polls won", .p50 = "p50"}, &HaltRow::polls_won);
  add_distribution(table, "slept", {.count = "slept", .p50 = "p50", .p99 = {"p99", 1}},
                   &HaltRow::slept);
  add_distribution(table, "wake_to_run", {.p50 = "wake-up p50", .p99 = {"p99", 2}},
                   &HaltRow::wake_to_run);
  table.add({"invalid"}, &HaltRow::invalid);
  const bool is_told = std::ranges::any_of(table.all(), [](const HaltRow& row) {
    return row.polls_won.count() + row.slept.count() + row.invalid != 0;
  });
  if (!is_told)
    for (const char* of_wakeup : {"polls_won", "slept", "invalid"}) forget(table, of_wakeup);
  if (!report.model.sched_switch || !report.model.wakeups) forget(table, "wake_to_run");
  return table;
}

// Returns rows of the selected vCPUs, in order of VM and vCPU.
std::vector<HaltRow> halt_cost_rows(const Naming& names) {
  std::vector<HaltRow> rows;
  for (const VcpuTotalsOf& vcpu : names.pipeline.vcpus()) {
    const HaltTracker::Thread* costs = names.pipeline.halts()->find(vcpu.thread);
    if (costs == nullptr || !names.pipeline.counts(vcpu.thread)) continue;
    HaltRow& row = rows.emplace_back(HaltRow{{vcpu.thread, names.vcpus}, *costs, vcpu.totals});
    row.polls_won = row.slept = row.wake_to_run = {};  // which this table doesn't show
  }
  std::ranges::sort(rows, {}, &VcpuId::order);
  return rows;
}

// The effect of another value of halt_poll_ns on a vCPU, or on all of them.
struct ReplayRow : HaltReplays::Row {
  std::uint64_t recorded_late_ns = 0, time_ns = 0;  // the vCPU's, as recorded
};

constexpr std::uint8_t kShareDropped = 1;
Column share_of(const std::string& whole) {
  return {
      .title = "of " + whole, .unit = Unit::kShare, .drop_order = kShareDropped, .whole = whole};
}

Table replay_table(std::vector<ReplayRow> rows) {
  using Row = ReplayRow;
  TableOf<Row> table({}, std::move(rows), [](const Row& row) {
    const std::uint64_t ns = row.halt_poll_ns;
    if (ns == 0) return std::string("0 (off)");
    return fmt::format("{}{}", ns,
                       ns == 200'000   ? " (default on x86)"
                       : ns == 500'000 ? " (arm64)"
                                       : "");
  });
  table.add({"halt_poll_ns"}, &Row::halt_poll_ns);
  table.add({"won", "won"}, &Row::won);
  table.add({"lost", "lost"}, &Row::lost);
  table.add({"polling_ns", "polled", Unit::kNanoseconds}, &Row::polling_ns);
  table.add(share_of("time"), [](const Row& row) { return Share{row.polling_ns, row.time_ns}; });
  table.add({"late_ns", "wake-ups", Unit::kNanoseconds, 0, kShareDropped}, &Row::late_ns);
  table.add({"saved_ns", "saved", Unit::kNanoseconds}, [](const Row& row) {
    return static_cast<std::int64_t>(row.recorded_late_ns - row.late_ns);
  });
  return table;
}

// Returns a vCPU's table of other values of halt_poll_ns; without halts it has no rows.
Table replay_of(const HaltRow& row) {
  const HaltReplays& replays = row.replays;
  std::vector<ReplayRow> rows;
  for (const HaltReplays::Row& setting : replays.rows(replays.halves()))
    if (replays.halts() != 0) rows.push_back({setting, replays.late_ns(), row.totals.time_ns()});
  Table table = replay_table(std::move(rows));
  table.key = "replay";
  table.facts = {{"halts", replays.halts()},
                 {"wakes_unknown", row.wakes_unknown},
                 {"late_ns", replays.late_ns()},
                 {"shrink", std::uint64_t{replays.halves() ? 2u : 0u}},
                 {"shrink_recorded", replays.saw_shrinking()}};
  return table;
}

// Returns the effect of each value of halt_poll_ns on all vCPUs together.
std::vector<ReplayRow> sum_of_replays(std::span<const HaltRow> vcpus) {
  std::vector<ReplayRow> sums(HaltReplays::kSettings.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].halt_poll_ns = HaltReplays::kSettings[i];
  for (const HaltRow& vcpu : vcpus) {
    const HaltReplays::Rows settings = vcpu.replays.rows(vcpu.replays.halves());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].won += settings[i].won;
      sums[i].lost += settings[i].lost;
      sums[i].polling_ns += settings[i].polling_ns;
      sums[i].late_ns += settings[i].late_ns;
      sums[i].recorded_late_ns += vcpu.replays.late_ns();
      sums[i].time_ns += vcpu.totals.time_ns();
    }
  }
  return sums;
}

// Returns text's table of all vCPUs together, with the assumptions of the replay.
Table replay_in_text(std::span<const HaltRow> vcpus, bool cycles) {
  std::uint64_t halts = 0, late = 0, unknown = 0;
  bool halves = false, seen = false;
  for (const HaltRow& row : vcpus) {
    halts += row.replays.halts();
    late += row.replays.late_ns();
    unknown += row.wakes_unknown;
    halves = halves || row.replays.halves();
    seen = seen || row.replays.saw_shrinking();
  }
  Table none;
  none.json = false;
  if (halts + unknown == 0 || cycles) return none;
  if (unknown > halts) {
    none.after = {
        {.text = fmt::format("What another halt_poll_ns would change cannot be told: of {} {} the "
                             "wake-up is not in the recording ({}).",
                             grouped(unknown), unknown == 1 ? "sleep" : "sleeps",
                             events::sched_waking.full_name)}};
    return none;
  }
  Table table = replay_table(sum_of_replays(vcpus));
  table.json = false;
  table.titles = {"halt_poll_ns replayed"};
  table.after = {{.text = fmt::format(
                      "{} took {} as recorded. The polling interval doubles from 10 µs and {}.",
                      halts == 1 ? "1 halt was replayed; its wake-up"
                                 : grouped(halts) + " halts were replayed; their wake-ups",
                      duration_text(late, false),
                      halves ? "is halved"
                      : seen ? "shrinks to 0"
                             : "shrinks to 0 (assumed)")}};
  if (unknown != 0)
    table.after.push_back(
        {.text = fmt::format("{} left out, whose wake-up is not in the recording ({}).",
                             unknown == 1 ? "1 sleep is" : grouped(unknown) + " sleeps are",
                             events::sched_waking.full_name)});
  return table;
}

TableOf<HaltRow> halt_cost_table(std::vector<HaltRow> rows, const ReportData& report) {
  using Row = HaltRow;
  const bool cycles = report.cycles;
  // The cost of polling, without the halts of halts_unknown: a limit if halts_bounded is not 0.
  const auto polling = [](const Row& row) -> CellValue {
    if (row.replays.halts() + row.wakes_unknown == row.halts_unknown) return {};
    return Share{row.polling_ns + row.polling_at_most_ns, row.totals.time_ns(),
                 row.halts_bounded != 0};
  };
  const auto halted = [](const Row& row) {
    return row.totals.parts[static_cast<std::size_t>(Part::kHalted)];
  };
  TableOf<Row> table({.key = "halt_costs", .csv = true, .csv_children = !cycles}, std::move(rows),
                     [with_vm = shows_vms(report)](const Row& row) { return row.text(with_vm); });
  if (!cycles)
    table.children = [all = table.all()](std::size_t row) {
      return std::vector<Table>{replay_of(all[row])};
    };
  if (table.rows != 0) table.titles = {"Idle"};
  table.add({"vm"}, &Row::vm);
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"exits", "exits"}, [](const Row& row) { return row.totals.exits; });
  table.add({"halt_exits", "halts"}, &Row::halt_exits);
  table.add(share_of("exits"), [](const Row& row) {
    return Share{row.halt_exits, row.totals.exits};
  });
  table.add({"halted_ns", "halted", Unit::kDuration}, halted);
  table.add(share_of("time"), [=](const Row& row) {
    return Share{halted(row), row.totals.time_ns()};
  });
  table.add({"", "polled", Unit::kNanoseconds}, polling);
  table.add(share_of("time"), [=](const Row& row) { return cycles ? CellValue() : polling(row); });
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

class HaltTables : public TableSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kHalts; }
  [[nodiscard]] std::vector<Table> tables(const ReportData& data,
                                          const Naming& names) const override {
    std::vector<Table> tables = {halt_table(data, names)};
    if (data.page) return tables;
    std::vector<HaltRow> rows = halt_cost_rows(names);
    Table replay = replay_in_text(rows, data.cycles);
    tables.push_back(halt_cost_table(std::move(rows), data));
    tables.push_back(std::move(replay));
    return tables;
  }
};

}  // namespace

const TableKind kHaltTables = {.option = "--halt",
                               .help = "Halts, slow wake-ups, what halt_poll_ns changes",
                               .in_page = InPage::kAlways,
                               .make = make_sink<HaltTables>};

}  // namespace trapline
