#include <cmath>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "merge/render/diff_render.h"
#include "merge/render/ordered_json.h"

namespace trapline {
namespace {

// A change from nothing is infinite, a figure that is not known NaN: JSON has no number for either.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json runs_json(const std::vector<double>& runs) {
  Json json = Json::array();
  for (const double value : runs) json.push_back(finite(value));
  return json;
}

Json recordings_json(const std::vector<ComparedRecording>& side) {
  Json json = Json::array();
  for (const ComparedRecording& one : side) {
    json.push_back({{"path", printable(one.path)},
                    {"exits", one.exits},
                    {"counted", one.counted},
                    {"wall_ns", one.wall_ns},
                    {"guest_ns", one.guest_ns ? Json(*one.guest_ns) : Json()},
                    {"vcpus", one.vcpus}});
  }
  return json;
}

Json metric_json(Metric metric, const MetricChange& value, bool cycles) {
  Json json = {{"unit", unit_of(metric, cycles)},
               {"before", finite(value.before)},
               {"after", finite(value.after)},
               {"change", finite(value.change)},
               {"before_runs", runs_json(value.runs.before)},
               {"after_runs", runs_json(value.runs.after)},
               {"tested", value.test.tested},
               {"proven", value.test.proven}};
  if (!value.test.tested) return json;
  json["low"] = finite(value.test.low);
  json["high"] = finite(value.test.high);
  json["p"] = value.test.p;
  json["corrected_p"] = value.test.corrected_p;
  return json;
}

}  // namespace

void print_json(const Comparison& comparison, std::ostream& out) {
  Json rows = Json::array();
  for (const ComparedRow& row : comparison.rows) {
    Json json = {{"key", row.key},
                 {"halts", row.halts},
                 {"before_count", row.before_count},
                 {"after_count", row.after_count}};
    for (std::size_t i = 0; i < kMetrics; ++i) {
      json[std::string(kMetricNames[i])] =
          metric_json(static_cast<Metric>(i), row.metrics[i], comparison.cycles);
    }
    rows.push_back(std::move(json));
  }
  const Json json = {{"version", 2},
                     {"by", comparison.by},
                     {"rows_of", kCompareRowsNames[static_cast<std::size_t>(comparison.rows_of)]},
                     {"cycles", comparison.cycles},
                     {"user_end", name_of(comparison.model.user_end)},
                     {"confidence", comparison.confidence},
                     {"seed", comparison.seed},
                     {"method", kMethodNames[static_cast<std::size_t>(comparison.method)]},
                     {"splits", comparison.splits},
                     {"tests", comparison.tests},
                     {"proven_changes", comparison.proven_changes()},
                     {"before", recordings_json(comparison.before)},
                     {"after", recordings_json(comparison.after)},
                     {"rows", std::move(rows)},
                     {"rows_left_out", comparison.rows_left_out},
                     {"warnings", comparison.warnings}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace trapline
