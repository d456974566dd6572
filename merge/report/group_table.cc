#include "merge/report/common_columns.h"
#include "merge/report/tables.h"

namespace trapline {

Table group_table(std::span<const GroupRow> rows, const Report& report) {
  const bool calls = report.rows_of == RowsOf::kCalls, exits = report.rows_of == RowsOf::kExits;
  const bool requests = report.rows_of == RowsOf::kRequests, durations = report.durations();
  const std::uint64_t vcpu_time = report.vcpu_time();
  TableOf<GroupRow> table(rows, &GroupRow::key);
  table.left_out = report.rows_left_out;
  table.dim = [rows](std::size_t row) { return rows[row].halts; };
  const auto timed = [durations](std::uint64_t ns) {
    return durations ? to_value(ns) : CellValue();
  };
  table.add({"key"}, &GroupRow::key);
  table.add({"count", std::string(name_of(report.rows_of))},
            [](const GroupRow& row) { return row.total.count(); });
  table.add({"total_ns", "total/{}", Unit::kDuration},
            [timed](const GroupRow& row) { return timed(row.total.total()); });
  if (exits) table.add({.key = "halts", .csv = false}, &GroupRow::halts);
  table.add({"", "of time", Unit::kShare}, [=](const GroupRow& row) -> CellValue {
    if (requests || !durations) return {};
    if (row.halts) return "halt";
    return Share{row.total.total(), vcpu_time};
  });
  const auto guest = [](const GroupRow& row) { return Share{row.guest_ns(), row.total.total()}; };
  const auto devices_at_most = [](const GroupRow& row) {
    return Share{row.devices_at_most_ns, row.total.total()};
  };
  if (calls) {
    table.add({.key = "guest_ns", .title = "guest", .unit = Unit::kShare, .block = 1, .csv = false},
              guest);
    table.add({.key = "devices_at_most_ns", .csv = false}, devices_at_most);
  }
  const States known = requests ? States() : report.known_states();
  const auto parts = [](const GroupRow& row) { return PartsOf{row.parts, row.total.total()}; };
  if (calls) {
    add_call_parts(table, known, 1, parts, devices_at_most);
  } else {
    add_parts(table, known, 1, kPartTitles, parts);
  }
  add_percentiles(table, "",
                  {.p50 = {"p50/{}", 1, true},
                   .p90 = {"p90/{}", 1},
                   .p99 = {"p99/{}", 2},
                   .max = {"max/{}", 2, true}},
                  [durations](const GroupRow& row) {
                    static const Histogram kNone;
                    return durations ? &row.total : &kNone;
                  });
  table.add({"max_at_ns"}, [timed](const GroupRow& row) { return timed(row.max_at_ns); });
  if (calls) {  // CSV has them at the end
    table.add({.key = "guest_ns", .json = false}, guest);
    table.add({.key = "devices_at_most_ns", .json = false}, devices_at_most);
  }
  return table;
}

}  // namespace trapline
