#include <algorithm>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/report/tables.h"

namespace trapline {

void fill_vmm_events(Report& report, const Pipeline& pipeline) {
  const auto& counts = pipeline.exits().vmm_events();
  for (NameId name = 1; name < counts.size(); ++name) {
    if (counts[name].count != 0)
      report.vmm_events.push_back({printable(pipeline.names()[name]), counts[name]});
  }
  std::sort(report.vmm_events.begin(), report.vmm_events.end(),
            [](const VmmEventRow& a, const VmmEventRow& b) {
              return std::tie(b.count.count, a.name) < std::tie(a.count.count, b.name);
            });
}

Table vmm_event_table(const Report& report) {
  TableOf<VmmEventRow> table(report.vmm_events, &VmmEventRow::name);
  table.add({"name"}, &VmmEventRow::name);
  table.add({"count", "all"}, [](const VmmEventRow& row) { return row.count.count; });
  const bool known = report.durations();
  table.add({"in_exits", "in exits"}, [known](const VmmEventRow& row) {
    return known ? to_value(row.count.in_exits) : CellValue();
  });
  return table;
}

}  // namespace trapline
