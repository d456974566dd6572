#include "merge/live/batch.h"

#include <vector>

#include "merge/pass/naming.h"
#include "merge/render/print.h"
#include "merge/report/common_columns.h"
#include "merge/report/head.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/report.h"
#include "merge/report/slow_exits.h"
#include "merge/report/vcpus.h"
#include "merge/report/waits.h"

namespace trapline::live {
namespace {

// Returns a table with the columns that all rows with a key and a histogram of totals have.
template <typename Row, typename AddParts>
TableOf<Row> table_of_totals(std::span<const Row> rows, AddParts add_parts_to) {
  TableOf<Row> table(rows, &Row::key);
  table.add({"key"}, &Row::key);
  table.add({"count"}, [](const Row& row) { return row.total.count(); });
  table.add({"total_ns"}, [](const Row& row) { return row.total.total(); });
  add_parts_to(table);
  add_percentiles(table, "", {}, [](const Row& row) { return &row.total; });
  return table;
}

// As in a report's JSON, and what began before the interval.
Table live_table(std::span<const LiveRow> rows, const States& known) {
  auto table = table_of_totals(rows, [&known](TableOf<LiveRow>& made) {
    add_parts(made, known, kNoParts, {}, 0, [](const LiveRow& row) {
      return PartsOf{row.parts, row.total.total(), row.halts};
    });
  });
  table.add({"max_at_ns"}, &LiveRow::max_at_ns);
  table.add({"carried"}, &LiveRow::carried);
  table.add({"carried_ns"}, &LiveRow::carried_ns);
  return table;
}

Table request_table(std::span<const RequestTotals> rows) {
  return table_of_totals(rows, [](TableOf<RequestTotals>&) {});
}

Table live_vcpu_table(std::span<const VcpuRow> rows, const ExitTracker& exits) {
  TableOf<VcpuRow> table(rows, &VcpuRow::vm);
  table.add({"vm"}, &VcpuRow::vm);
  table.add({"vcpu"}, [](const VcpuRow& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, &VcpuRow::tid);
  table.add({"exits"}, [lacks_entries = exits.lacks_entries()](const VcpuRow& row) {
    return lacks_entries ? CellValue() : to_value(row.totals.exits);
  });
  table.add({"time_ns"}, [](const VcpuRow& row) { return row.totals.time_ns(); });
  add_states(table, rows, exits.known_states());
  return table;
}

// Returns the table of --slower-than, without the columns that a frame does not keep.
Table slow_table(std::span<const SlowExit> exits, const Engine& engine) {
  const Naming& names = engine.naming();
  const auto word = [&names](const SlowExit& exit, std::size_t place, Dimension dimension) {
    const std::vector<Dimension> by = {dimension};
    GroupKey key;
    key.words[0] = exit.key.words[place];
    return ExitKeys(by).text(key, names);
  };
  std::vector<ExitRow> rows;
  for (const SlowExit& exit : exits) {
    ExitRow& row = rows.emplace_back();
    row.span.start = exit.start;
    row.span.end = Timestamp(exit.start.ns() + exit.total);
    row.span.parts = exit.parts;
    row.span.halt = exit.halt;
    row.span.thread = exit.thread;
    row.span.vcpu = names.vcpus.number(exit.thread);
    row.reason = word(exit, kReasonWord, Dimension::kReason);
    row.detail = detail_text(exit.detail);
    row.device = word(exit, kDeviceWord, Dimension::kDevice);
  }
  Table table = slow_exit_table(std::move(rows), engine.model().known_states(), false);
  table.columns.resize(table.columns.size() - 4);  // drops the function and the columns after it
  if (!engine.model().durations()) forget(table, "total_ns");
  return table;
}

Table stall_table(const std::optional<SeenStall>& stall, const Naming& names) {
  std::vector<SeenStall> rows;
  if (stall) rows.push_back(*stall);
  TableOf<SeenStall> table(std::move(rows), [](const SeenStall&) { return std::string(); });
  table.add({"begin_ns"}, [](const SeenStall& row) { return row.begin.ns(); });
  table.add({"ns"}, &SeenStall::length);
  table.add({"open"}, &SeenStall::open);
  table.add({"vcpu"}, [&names](const SeenStall& row) {
    return number_or_null(names.vcpus.number(row.thread), kNoVcpu);
  });
  table.add({"tid"}, [](const SeenStall& row) { return static_cast<std::int32_t>(row.thread); });
  return table;
}

void add(Report& report, const char* key, Table table, std::size_t left_out = 0) {
  table.key = key;
  table.left_out = left_out;
  report.tables.push_back(std::move(table));
}

void add_waits(Report& report, const char* key, const WaitRows& waits, bool is_known) {
  Table table = wait_table(waits, is_known, {});
  std::erase_if(table.columns, [](const Column& column) {
    return column.key == "process" || column.key.starts_with("vm");
  });
  add(report, key, std::move(table));
}

// Returns the groups; their times are absent if the events do not show durations.
Table group_rows(std::span<const LiveRow> rows, const States& known, bool durations) {
  Table table = live_table(rows, known);
  if (!durations)
    for (const char* time : {"total_ns", "min_ns", "mean_ns", "p", "max_ns", "carried_ns"})
      forget(table, time);
  return table;
}

}  // namespace

std::string batch_line(const Frame& frame, const BatchOptions& options, const Engine& engine) {
  const ExitTracker& exits = engine.pipeline().exits();
  const States known = exits.known_states();
  Report report;
  report.head = head_facts("top", engine.model().cycles, frame.begin.ns(), frame.end.ns(), frame);
  report.head.push_back({"events", frame.events});
  add_filter(report.head, options.scope.vcpus, options.exits);
  report.tables = {source_table(source_rows(engine.timeline()))};

  const std::vector<VcpuRow> vcpus = vcpus_of(frame, options.scope, engine);
  Table vcpu_table = live_vcpu_table(vcpus, exits);
  // Also counts, as not seen, the frame's time in which the vCPU was not known yet.
  const auto not_seen =
      std::ranges::find(vcpu_table.columns, "not_seen_ns", &Table::Described::key);
  not_seen->value = [&](std::size_t row) -> CellValue {
    const VcpuTotals& totals = vcpus[row].totals;
    const std::uint64_t seen = totals.time_ns() - totals.not_seen_ns;
    return frame.length() > seen ? frame.length() - seen : std::uint64_t{0};
  };
  add(report, "vcpus", std::move(vcpu_table));

  std::vector<LiveRow> rows = rows_of(frame, options.by, options.scope, options.sort, engine);
  const std::size_t left_out = keep_first(rows, options.top);
  add(report, "groups", group_rows(rows, known, engine.model().durations()), left_out);
  report.tables.back().facts = {{"by", options.by_text}, {"exits_folded", frame.folded}};

  const bool waits = known[static_cast<std::size_t>(State::kPreempted)];
  add_waits(report, "preempted", frame.waits.preempted, waits);
  add_waits(report, "blocked", frame.waits.blocked, waits);
  add(report, "requests", request_table(frame.requests));
  add(report, "longest_stall", stall_table(frame.longest_stall, engine.naming()));
  std::vector<SlowExit> slow = slow_of(frame, options.scope, engine);
  (void)keep_first(slow, options.slow);
  add(report, "slow_exits", slow_table(slow, engine));
  return json_line(report);
}

}  // namespace trapline::live
