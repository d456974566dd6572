#include "merge/report/head.h"

#include <fmt/format.h>

#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/report/notes.h"
#include "merge/report/units.h"

namespace trapline {

std::vector<SourceRow> source_rows(const Timeline& timeline) {
  std::vector<SourceRow> rows;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    rows.push_back({timeline.source(i).info(), counters.events,
                    saturated_sum(counters.lost_events, counters.lost_unplaced)});
  }
  return rows;
}

Table source_table(std::vector<SourceRow> rows) {
  using Row = SourceRow;
  TableOf<Row> table({.key = "sources"}, std::move(rows), &Row::path);
  table.add({"path"}, [](const Row& row) { return printable(row.path); });
  table.add({"kind"}, &Row::kind);
  table.add({"clock"}, [](const Row& row) { return printable(row.clock); });
  table.add({"resolution_ns"}, &Row::resolution_ns);
  table.add({"events"}, &Row::events);
  // A text recording does not always say what was lost.
  table.add({"lost"}, [](const Row& row) {
    return row.lost != 0 || row.kind != "trace text" ? to_value(row.lost) : CellValue();
  });
  table.add({"method"}, [](const Row& row) { return row.aligned.method_text(); });
  table.add({"offset_ns"}, [](const Row& row) { return row.aligned.offset_ns; });
  table.add({"error_ns"}, [](const Row& row) { return row.aligned.error_ns; });
  table.add({"assumes.one_boot"},
            [](const Row& row) { return row.aligned.one_boot_error_ns.has_value(); });
  table.add({"assumes.rate_change_ppm"},
            [](const Row& row) { return row.aligned.rate_change_ppm; });
  return table;
}

Facts head_facts(std::string_view command, bool cycles, std::uint64_t begin_ns,
                 std::uint64_t end_ns, const LossCounts& losses) {
  return {{"command", to_value(command)},
          {"time_unit", to_value(cycles ? "cycles" : "ns")},
          {"interval.start_ns", begin_ns},
          {"interval.end_ns", end_ns},
          {"losses.events", losses.lost_events},
          {"losses.gaps", losses.gaps},
          {"losses.gaps_uncounted", losses.gaps_uncounted}};
}

Report begin_report(std::string_view command, const PassEnd& pass) {
  const Timeline& timeline = pass.timeline();
  const RecordedInterval interval = recorded_interval(timeline, pass.pipeline());
  Report report;
  report.cycles = timeline.source(0).info().cycles;
  report.head = head_facts(command, report.cycles, interval.begin.ns(), interval.end.ns(),
                           losses_of(timeline, pass.pipeline()));
  report.tables = {source_table(source_rows(timeline))};
  report.notes = notes_of(pass);
  return report;
}

Table counter_table(const std::vector<CounterRow>& rows) {
  Table table;
  table.key = "counters";
  for (const CounterRow& row : rows) {
    table.facts.push_back({std::string(row.key), to_value(row.count)});
    if (row.sentence.empty() || *row.count <= row.expected) continue;
    if (table.after.empty())
      table.after.push_back(
          {.text = "\nAnomalies: events that do not fit together", .verbatim = true});
    table.after.push_back({.text = std::string(row.sentence),
                           .label = fmt::format("  {:>12} ", grouped(*row.count))});
  }
  return table;
}

}  // namespace trapline
