#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/report/tables.h"

namespace trapline {

void fill_sources(Report& report, const Timeline& timeline) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    const SourceCounters counters = timeline.source(i).counters();
    report.sources.push_back({info.path, info.kind, info.clock, info.resolution_ns, counters.events,
                              saturated_sum(counters.lost_events, counters.lost_unplaced),
                              info.aligned});
  }
}

Table source_table(const Report& report) {
  using Row = SourceRow;
  TableOf<Row> table(report.sources, &Row::path);
  table.add({"path"}, [](const Row& row) { return printable(row.path); });
  table.add({"kind"}, &Row::kind);
  table.add({"clock"}, [](const Row& row) { return printable(row.clock); });
  table.add({"resolution_ns"}, &Row::resolution_ns);
  table.add({"events"}, &Row::events);
  // A text need not name what was lost.
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

}  // namespace trapline
