#include "merge/live/frame_report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "merge/pass/naming.h"
#include "merge/render/print.h"
#include "merge/report/head.h"
#include "merge/report/report.h"
#include "merge/report/slow_exits.h"
#include "merge/report/vcpus.h"

namespace trapline::live {
namespace {

Table stall_table(const std::optional<StallTime>& stall, const VcpuNames& names) {
  std::vector<StallTime> rows;
  if (stall) rows.push_back(*stall);
  TableOf<StallTime> table({.key = "longest_stall"}, std::move(rows),
                           [](const StallTime&) { return std::string(); });
  table.add({"begin_ns"}, [](const StallTime& row) { return row.begin.ns(); });
  table.add({"ns"}, &StallTime::length);
  table.add({"open"}, &StallTime::open);
  table.add({"vcpu"}, [&names](const StallTime& row) {
    return number_or_null(names.number(row.thread), kNoVcpu);
  });
  add_tid(table, &StallTime::thread);
  return table;
}

}  // namespace

std::vector<LiveRow> rows_of(const Frame& frame, const std::vector<Dimension>& by,
                             const Scope& scope, SortBy sort, const Engine& engine) {
  const ExitKeys keys(by);
  std::map<std::string, LiveRow> by_name;  // two numbers may have one name
  for (const Cell& cell : frame.cells) {
    if (!scope.holds(cell.slowest, engine.naming())) continue;
    const GroupKey key = keys.part_of(cell.key, engine.dimensions(), engine.pipeline().stacks());
    LiveRow& row = by_name[keys.text(key, engine.naming())];
    row.merge(cell.row);
    row.carried += cell.carried;
    row.carried_ns += cell.carried_ns;
    row.cell = cell.key;
  }
  std::vector<LiveRow> rows;
  for (auto& [key, row] : by_name) {
    row.key = key;
    rows.push_back(std::move(row));
  }
  const bool durations = engine.model().durations();
  std::ranges::stable_sort(rows, [&](const LiveRow& a, const LiveRow& b) {
    return comes_before(a, b, sort, durations);
  });
  return rows;
}

std::string text_of(const std::vector<Dimension>& by) {
  std::string text;
  for (const Dimension dimension : by)
    text.append(text.empty() ? "" : ",").append(name_of(dimension));
  return text;
}

std::string dimension_text(const GroupKey& cell, Dimension dimension, const Engine& engine) {
  const std::vector<Dimension> by{dimension};
  const ExitKeys keys(by);
  return keys.text(keys.part_of(cell, engine.dimensions(), engine.pipeline().stacks()),
                   engine.naming());
}

ReportData data_of(const Frame& frame, const Scope& scope, const Engine& engine) {
  const Naming& naming = engine.naming();
  const ExitTracker& exits = engine.pipeline().exits();
  ReportData data;
  data.start_ns = frame.begin.ns();
  data.end_ns = frame.end.ns();
  data.model = engine.model();
  data.cycles = data.model.cycles;
  data.shown = exits.known_states();
  data.lacks_entries = exits.lacks_entries();
  data.counters.add(frame);
  if (data.knows(State::kGuest)) data.overhead.emplace();
  for (const auto& [thread, totals] : frame.vcpus) {
    if (!scope.holds(thread, naming)) continue;
    VcpuRow& row = data.vcpus.emplace_back(VcpuRow{
        {thread, naming.vcpus}, false, naming.timeline.source(totals.source).comm(thread), totals});
    row.totals.begin = std::max(totals.begin, frame.begin);
    if (totals.end == Timestamp() || totals.end > frame.end) row.totals.end = frame.end;
    // The time before the vCPU's first event also counts as not seen.
    const std::uint64_t seen = totals.time_ns() - totals.not_seen_ns;
    row.totals.not_seen_ns = frame.length() > seen ? frame.length() - seen : 0;
    if (data.overhead) data.overhead->add(totals);
  }
  std::ranges::sort(data.vcpus, {}, &VcpuRow::order);
  return data;
}

Table slow_table(const Frame& frame, const Scope& scope, std::size_t most, const ReportData& data,
                 const Engine& engine) {
  std::vector<const KeptExit*> slow;
  std::set<std::pair<Timestamp, ThreadId>> seen;
  const auto add = [&](const KeptExit& exit) {
    if (scope.holds(exit, engine.naming()) && seen.insert({exit.start, exit.thread}).second)
      slow.push_back(&exit);
  };
  for (const KeptExit& exit : frame.slow) add(exit);
  // A cell without any of the slow exits adds its slowest exit. Halts are only added if a reason
  // was chosen.
  for (const Cell& cell : frame.cells)
    if (!cell.slowest.halt || scope.reason) add(cell.slowest);
  std::ranges::stable_sort(slow, std::greater(), &ExitSpan::total);
  (void)keep_first(slow, most);
  std::vector<ExitRow> rows;
  for (const KeptExit* exit : slow)
    rows.push_back(exit_row(*exit, kNoName, engine.naming(), exit->preempted));
  TableOf<ExitRow> table = slow_exit_table(std::move(rows), data.known_states(), false);
  table.key = "slow_exits";
  if (!data.durations()) forget(table, "total_ns");
  add_sentences(table, data.known_states(), data.cycles);
  return table;
}

Table request_table(const Frame& frame) {
  ReportData data;
  data.rows_of = RowsOf::kRequests;
  Table table = group_columns(frame.requests, data);
  table.key = "requests";
  table.titles = {"request"};
  return table;
}

std::string batch_line(const Frame& frame, const Engine& engine) {
  constexpr std::size_t kSlow = 5;
  const EngineOptions& options = engine.options();
  const Scope scope{options.which.vcpus};
  const ReportData data = data_of(frame, scope, engine);
  Report report;
  report.head = head_facts("top", data.cycles, data.start_ns, data.end_ns, frame);
  report.head.push_back({"events", frame.events});
  add_filter(report.head, scope.vcpus, options.which.exits);
  report.tables = {source_table(source_rows(engine.timeline())), vcpu_table(data)};

  std::vector<LiveRow> rows = rows_of(frame, options.by, scope, options.sort, engine);
  const std::size_t left_out = keep_first(rows, options.top);
  TableOf<GroupRow> groups = group_columns({rows.begin(), rows.end()}, data);
  groups.key = "groups";
  groups.facts = {{"by", text_of(options.by)}, {"exits_folded", frame.folded}};
  groups.left_out = left_out;
  groups.columns.push_back(
      {{"carried"}, [&rows](std::size_t row) { return to_value(rows[row].carried); }});
  groups.columns.push_back({{"carried_ns"}, [&rows, &data](std::size_t row) {
                              return data.durations() ? to_value(rows[row].carried_ns)
                                                      : CellValue();
                            }});
  report.tables.push_back(std::move(groups));

  for (Table& table : wait_tables(frame.waits, data, FrameMaker::kMostCulprits))
    report.tables.push_back(std::move(table));
  report.tables.push_back(request_table(frame));
  report.tables.push_back(stall_table(frame.longest_stall, engine.naming().vcpus));
  report.tables.push_back(slow_table(frame, scope, kSlow, data, engine));
  return json_line(report);
}

}  // namespace trapline::live
