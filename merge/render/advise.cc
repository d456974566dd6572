#include "merge/render/advise.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "merge/render/ordered_json.h"
#include "merge/render/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

void print_advice(const AdviceRow& row, std::size_t rank, std::ostream& out,
                  const TextStyle& style) {
  const Remedy& remedy = remedy_of(row.id);
  const std::string gain =
      row.gain_high_ns == 0
          ? fmt::format("costs {}; {}", percent_text(row.cost_ns, row.busy_ns),
                        remedy.model == AdviceModel::kNone
                            ? "the gain is not validated"
                            : "the gain may be below 1%, or is not known within a factor of two")
          : fmt::format("gains {} to {} of the busy time",
                        percent_text(row.gain_low_ns, row.busy_ns),
                        percent_text(row.gain_high_ns, row.busy_ns));
  out << '\n';
  print_wrapped(fmt::format("{}.", rank), fmt::format("{}: {}", row.cause, gain), out, style,
                {.figures = true});
  print_wrapped("   change:", row.change, out, style);
  print_wrapped("   rests on:", row.rests_on, out, style);
  if (row.gain_high_ns != 0)
    print_wrapped("   assumes:", std::string(assumption_of(remedy.model)), out, style);
  if (!remedy.elsewhere.empty())
    print_wrapped("   elsewhere:", std::string(remedy.elsewhere), out, style);
}

}  // namespace

void print_text(const Advice& advice, std::ostream& out, const TextStyle& style) {
  for (const std::string& sentence : advice.finding)
    print_wrapped(sentence, out, style, {.figures = true});
  std::size_t rank = 0;
  for (const AdviceRow& row : advice.rows) print_advice(row, ++rank, out, style);
  for (const AdviceRow& row : advice.not_validated) print_advice(row, ++rank, out, style);
  if (!advice.record.empty() || !advice.notes.empty()) out << '\n';
  for (const std::string& line : advice.record) print_wrapped("record:", line, out, style);
  for (const std::string& note : advice.notes) print_wrapped("note:", note, out, style);
}

void print_json(const Advice& advice, std::ostream& out) {
  const Json json = {{"version", 1},
                     {"time_unit", "ns"},
                     {"overhead",
                      {{"guest_ns", advice.busy.guest_ns},
                       {"exit_ns", advice.busy.exit_ns},
                       {"not_run_ns", advice.busy.not_run_ns}}},
                     {"finding", advice.finding},
                     {"advice", rows_json(advice_table(advice.rows))},
                     {"not_validated", rows_json(advice_table(advice.not_validated))},
                     {"record", advice.record},
                     {"notes", advice.notes}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_csv(const Advice& advice, std::ostream& out) {
  print_csv_header(advice_table({}), out);
  print_csv_rows(advice_table(advice.rows), out);
  print_csv_rows(advice_table(advice.not_validated), out);
}

}  // namespace trapline
