// --guest: guest functions, with their own time and the time of exits in them.
#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/pipeline.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"

namespace trapline {
namespace {

struct GuestFunctionRow {
  std::string name;
  GuestFunctionTimes times;
};

// Returns the rows in order of own time.
std::vector<GuestFunctionRow> guest_function_rows(const Pipeline& pipeline) {
  std::vector<GuestFunctionRow> rows;
  const auto& functions = pipeline.stacks().functions();
  for (NameId name = 1; name < functions.size(); ++name) {
    const GuestFunctionTimes& times = functions[name];
    if (times.calls != 0 || times.exits != 0)
      rows.push_back({printable(pipeline.names()[name]), times});
  }
  std::ranges::stable_sort(rows, std::greater(), [](const auto& row) { return row.times.total(); });
  return rows;
}

class GuestFunctionTable : public TableSink {
 public:
  [[nodiscard]] std::vector<Table> tables(const ReportData& report,
                                          const Naming& names) const override {
    using Row = GuestFunctionRow;
    const bool is_requested = report.tables_asked.contains("--guest");
    if (!is_requested && report.rows_of != RowsOf::kCalls) return {};
    const bool calls = report.rows_of == RowsOf::kCalls, guest = report.knows(State::kGuest);
    const auto events = [](const Row& row) { return row.times.vmm_events; };
    const auto devices_at_most = [](const Row& row) {
      return Share{row.times.devices_at_most_ns, row.times.total()};
    };
    const auto parts = [](const Row& row) { return PartsOf{row.times.parts, row.times.total()}; };
    std::vector<Row> rows = guest_function_rows(names.pipeline);
    TableOf<Row> table(
        {.key = "guest_functions", .left_out = keep_first(rows, report.top), .csv = is_requested},
        std::move(rows), &Row::name);
    // Text leaves out this table if calls are grouped by function: the groups show the same.
    if (!calls && report.counters.guest_records == 0)
      table.after = {
          {.text = "\nNo guest functions were recorded (docs/plugin.md).", .verbatim = true}};
    else if (!calls || report.by != "function")
      table.titles = {"own time of"};
    table.add({"name"}, &Row::name);
    table.add({"calls", "calls"}, [](const Row& row) { return row.times.calls; });
    table.add({"exits", calls ? "" : "exits"}, [](const Row& row) { return row.times.exits; });
    if (calls) table.add({"", "QEMU events"}, events);
    table.add({"own_ns", "own", Unit::kDuration}, [](const Row& row) { return row.times.total(); });
    table.add(
        {.key = "guest_ns", .title = "guest", .unit = Unit::kShare, .whole = "own"},
        [guest](const Row& row) {
          return guest ? CellValue(Share{row.times.guest_ns, row.times.total()}) : CellValue();
        });
    if (!calls) {
      add_parts(table, report.known_states(), part_titles(report.known_states()), "own", 0, parts);
      return {std::move(table)};
    }
    table.add({"qemu_events"}, events);
    table.add({"devices_at_most_ns"}, devices_at_most);
    add_call_parts(table, report.known_states(), "own", parts, devices_at_most);
    return {std::move(table)};
  }
};

}  // namespace

const TableKind kGuestFunctionTable = {
    .option = "--guest",
    .help = "Guest functions: own time, and the exits' part of it",
    .of_exits = false,
    .in_page = InPage::kAlways,
    .make = make_sink<GuestFunctionTable>};

}  // namespace trapline
