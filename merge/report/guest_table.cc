#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/common_columns.h"
#include "merge/report/tables.h"
#include "merge/report/top_rows.h"

namespace trapline {

void fill_guest_functions(Report& report, const Pipeline& pipeline, std::size_t top) {
  auto& rows = report.guest_functions.emplace();
  const auto& functions = pipeline.stacks().functions();
  for (NameId name = 1; name < functions.size(); ++name) {
    const GuestFunctionTimes& times = functions[name];
    if (times.calls != 0 || times.exits != 0)
      rows.push_back({printable(pipeline.names()[name]), times});
  }
  std::ranges::stable_sort(rows, std::greater(),
                           [](const auto& row) { return row.times.own_ns(); });
  report.guest_functions_left_out = keep_first(rows, top);
}

Table guest_function_table(const Report& report) {
  using Row = GuestFunctionRow;
  const bool calls = report.rows_of == RowsOf::kCalls, guest = report.knows(State::kGuest);
  const auto events = [](const Row& row) { return row.times.vmm_events; };
  const auto devices_at_most = [](const Row& row) {
    return Share{row.times.devices_at_most_ns, row.times.own_ns()};
  };
  const auto parts = [](const Row& row) { return PartsOf{row.times.parts, row.times.own_ns()}; };
  TableOf<Row> table(*report.guest_functions, &Row::name);
  table.left_out = report.guest_functions_left_out;
  table.add({"name"}, &Row::name);
  table.add({"calls", "calls"}, [](const Row& row) { return row.times.calls; });
  table.add({"exits", calls ? "" : "exits"}, [](const Row& row) { return row.times.exits; });
  if (calls) table.add({"", "QEMU events"}, events);
  table.add({"own_ns", "own", Unit::kDuration}, [](const Row& row) { return row.times.own_ns(); });
  table.add({"guest_ns", "guest", Unit::kShare}, [guest](const Row& row) {
    return guest ? CellValue(Share{row.times.guest_ns, row.times.own_ns()}) : CellValue();
  });
  if (!calls) {
    add_parts(table, report.known_states(), part_titles(report.known_states()), 0, parts);
    return table;
  }
  table.add({"qemu_events"}, events);
  table.add({"devices_at_most_ns"}, devices_at_most);
  add_call_parts(table, report.known_states(), parts, devices_at_most);
  return table;
}

}  // namespace trapline
