#include "merge/report/common_columns.h"
#include "merge/report/tables.h"

namespace trapline {

namespace {

// What a narrow terminal leaves out, the highest first: the shape of a distribution, then parts
// that little time was spent in, then how many there were, then what it was about; the total and
// its share stay.
enum Goes : std::uint8_t {
  kOfParts = 1,
  kLargest = kOfParts + kParts,
  kCount,
  kSmallParts,
  kHalted = kSmallParts + kParts,  // what the halts' rows say already
  kP99,
  kMax,
  kP50,
  kP90,
  kMean
};

}  // namespace

Table group_table(std::span<const GroupRow> rows, const Report& report) {
  const bool calls = report.rows_of == RowsOf::kCalls, exits = report.rows_of == RowsOf::kExits;
  const bool requests = report.rows_of == RowsOf::kRequests, durations = report.durations();
  const std::uint64_t whole = exits ? report.whole_cost_ns() : report.vcpu_time();
  const States known = requests ? States() : report.known_states();
  TableOf<GroupRow> table(rows, &GroupRow::key);
  table.dim = [rows](std::size_t row) { return rows[row].halts; };
  const auto timed = [durations](std::uint64_t ns) {
    return durations ? to_value(ns) : CellValue();
  };
  table.add({"key"}, &GroupRow::key);
  table.add({.key = "count", .title = std::string(name_of(report.rows_of)), .goes = kCount},
            [](const GroupRow& row) { return row.total.count(); });
  table.add({"total_ns", "total", Unit::kDuration},
            [timed](const GroupRow& row) { return timed(row.total.total()); });
  if (exits) table.add({.key = "halts", .csv = false}, &GroupRow::halts);
  table.add({"",
             requests ? ""
             : exits  ? "of cost"
                      : "of time",
             Unit::kShare},
            [=](const GroupRow& row) -> CellValue {
              if (!durations || are_whole_halts(known, row.halts, row.parts)) return {};
              return Share{exits ? row.cost_ns() : row.total.total(), whole};
            });
  add_percentiles(table, "",
                  {.mean = {"mean", kMean},
                   .p50 = {"p50", kP50},
                   .p90 = {requests || calls ? "p90" : "", kP90},
                   .p99 = {"p99", kP99},
                   .max = {"max", kMax}},
                  [durations](const GroupRow& row) {
                    static const Histogram kNone;
                    return durations ? &row.total : &kNone;
                  });
  if (exits) table.columns.back().stands_out = StandsOut::kLargest;
  table.add({"max_at_ns"}, [timed](const GroupRow& row) { return timed(row.max_at_ns); });
  const auto parts = [](const GroupRow& row) {
    return PartsOf{row.parts, row.total.total(), row.halts};
  };
  if (calls) {
    const auto at_most = [](const GroupRow& row) {
      return Share{row.devices_at_most_ns, row.total.total()};
    };
    table.add({.key = "guest_ns", .title = "guest", .unit = Unit::kShare, .goes = kOfParts},
              [](const GroupRow& row) {
                return Share{row.guest_ns(), row.total.total()};
              });
    add_call_parts(table, known, parts, at_most);
    table.add({"devices_at_most_ns"}, at_most);
  } else {
    const std::size_t first = table.columns.size();
    add_parts(table, known, requests ? kNoParts : part_titles(known), kOfParts, parts);
    for (std::size_t part = 0; part < kParts; ++part) {
      std::uint64_t ns = 0, all = 0;
      for (const GroupRow& row : rows) {
        if (row.halts) continue;
        ns += row.parts[part];
        all += row.total.total();
      }
      if (ns < all / 10)
        table.columns[first + part].goes = static_cast<std::uint8_t>(kSmallParts + part);
    }
    table.columns.back().goes = kHalted;
    for (std::size_t part = 0; part < kParts; ++part)
      table.columns[first + part].stands_out = StandsOut::kLargestPart;
  }
  if (exits) {
    table.add({.key = "largest", .unit = Unit::kText},
              [](const GroupRow& row) { return text_or_null(row.largest); });
    table.add({"largest_ns", "largest", Unit::kSubject, 0, kLargest},
              [](const GroupRow& row) -> CellValue {
                if (row.largest.empty()) return {};
                return Share{.ns = row.largest_ns,
                             .whole = row.total.total(),
                             .at_least = row.largest_at_least,
                             .of = row.largest};
              });
  }
  return table;
}

}  // namespace trapline
