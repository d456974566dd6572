#include "merge/render/stalls.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "merge/render/tables.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

std::string limits_text(const StallRow& row) {
  std::string text;
  for (const StallLimit& limit : row.limits) {
    text += fmt::format("{}{} after {} ({})", text.empty() ? "A guest may notice: " : "; ",
                        limit.what, duration_text(limit.ns, false), limit.source);
  }
  return text.empty() ? text : text + '.';
}

}  // namespace

void print_text(const StallsFound& found, std::ostream& out, const TextStyle& style) {
  const std::string least = duration_text(found.at_least_ns, false);
  if (found.rows.empty()) {
    out << fmt::format("No stall of {} or more.\n", least);
  } else {
    const StallRow& longest = found.rows.front();
    print_wrapped("", longest.sentence, out, style);
    if (const std::string limits = limits_text(longest); !limits.empty())
      print_wrapped("", limits, out, style);
    out << fmt::format("\n{} {} of {} and more, {} together\n", grouped(found.count),
                       found.count == 1 ? "stall" : "stalls", least,
                       duration_text(found.total_ns, false));
    Table table = stall_table(found.rows);
    table.left_out = found.count - found.rows.size();
    print_table(table, "stall", false, out, style);
  }
  for (const std::string& note : found.notes) print_wrapped("note:", note, out, style);
}

Json stalls_json(const std::vector<StallRow>& rows) {
  const Table table = stall_table(rows);
  Json json = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StallRow& row = rows[i];
    Json one = row_json(table, i);
    one["causes"] = Json::array();
    for (const StallRow::Cause& cause : row.causes) {
      one["causes"].push_back({{"cause", cause.key},
                               {"culprit", cause.culprit.empty() ? Json() : Json(cause.culprit)},
                               {"text", cause.text},
                               {"ns", cause.ns}});
    }
    one["noticed"] = Json::array();
    for (const StallLimit& limit : row.limits) {
      one["noticed"].push_back(
          {{"what", limit.what}, {"after_ns", limit.ns}, {"source", limit.source}});
    }
    one["finding"] = row.sentence;
    json.push_back(std::move(one));
  }
  return json;
}

void print_json(const StallsFound& found, std::ostream& out) {
  const Json json = {{"version", 1},
                     {"time_unit", "ns"},
                     {"min_ns", found.at_least_ns},
                     {"count", found.count},
                     {"total_ns", found.total_ns},
                     {"stalls", stalls_json(found.rows)},
                     {"stalls_left_out", found.count - found.rows.size()},
                     {"notes", found.notes}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_csv(const StallsFound& found, std::ostream& out) {
  const Table table = stall_table(found.rows);
  print_csv_header(table, out);
  print_csv_rows(table, out);
}

}  // namespace trapline
