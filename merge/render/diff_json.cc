#include <cmath>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "merge/render/diff_render.h"
#include "merge/render/ordered_json.h"

namespace trapline {
namespace {

// A change from nothing is infinite, and JSON has no number for it.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json recordings_json(const std::vector<ComparedRecording>& side) {
  Json json = Json::array();
  for (const ComparedRecording& one : side) {
    json.push_back({{"path", printable(one.path)},
                    {"exits", one.exits},
                    {"counted", one.counted},
                    {"wall_ns", one.wall_ns},
                    {"guest_ns", one.guest_ns},
                    {"vcpus", one.vcpus},
                    {"blocks", one.blocks},
                    {"block_ns", one.block_ns}});
  }
  return json;
}

Json metric_json(Metric metric, const MetricChange& value, bool cycles) {
  Json json = {{"unit", unit_of(metric, cycles)},
               {"before", value.before},
               {"after", value.after},
               {"tested", value.tested}};
  if (!value.tested) return json;
  json["change"] = finite(value.change.change);
  json["low"] = finite(value.change.low);
  json["high"] = finite(value.change.high);
  json["p"] = value.change.p;
  json["corrected_p"] = value.corrected_p;
  json["real"] = value.real;
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
  const Json json = {{"version", 1},
                     {"by", comparison.by},
                     {"rows_of", kCompareRowsNames[static_cast<std::size_t>(comparison.rows_of)]},
                     {"cycles", comparison.cycles},
                     {"user_end", name_of(comparison.model.user_end)},
                     {"confidence", comparison.confidence},
                     {"seed", comparison.seed},
                     {"resamples", Comparison::kResamples},
                     {"tests", comparison.tests},
                     {"real_changes", comparison.real_changes()},
                     {"before", recordings_json(comparison.before)},
                     {"after", recordings_json(comparison.after)},
                     {"rows", std::move(rows)},
                     {"rows_left_out", comparison.rows_left_out},
                     {"warnings", comparison.warnings}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace trapline
