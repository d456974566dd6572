#include "merge/render/side_tables.h"

#include "merge/render/halt_costs.h"
#include "merge/render/phases.h"
#include "merge/render/report_json.h"

namespace trapline {
namespace {

Json replay_json(const HaltCostRow& row) {
  Json settings = Json::array();
  for (const HaltReplays::Row& setting : row.replay) {
    settings.push_back({{"halt_poll_ns", setting.halt_poll_ns},
                        {"won", setting.won},
                        {"lost", setting.lost},
                        {"polling_ns", setting.polling_ns},
                        {"late_ns", setting.late_ns},
                        {"saved_ns", static_cast<std::int64_t>(row.late_ns - setting.late_ns)}});
  }
  return {{"halts", row.halts},
          {"wakes_unknown", row.wakes_unknown},
          {"late_ns", row.late_ns},
          {"shrink", row.halves ? 2 : 0},
          {"shrink_recorded", row.saw_shrinking},
          {"settings", std::move(settings)}};
}

Json shares_json(const std::vector<PhaseShare>& shares) {
  Json rows = Json::array();
  for (const PhaseShare& share : shares)
    rows.push_back({{"name", share.name}, {"exits", share.exits}, {"total_ns", share.ns}});
  return rows;
}

}  // namespace

Json halt_cost_json(const HaltCostRow& row, bool cycles) {
  Json json = {{"vm", row.vm},
               {"vcpu", row.vcpu == kNoVcpu ? Json() : Json(row.vcpu)},
               {"exits", row.exits},
               {"halt_exits", row.halt_exits},
               {"halted_ns", row.halted_ns},
               {"polling_ns", row.polling_ns},
               {"polling_bounded", row.halts_bounded},
               {"polling_unknown", row.halts_unknown}};
  if (!cycles) json["replay"] = replay_json(row);
  return json;
}

Json phases_json(const PhaseReport& phases, const Report& report) {
  Json rows = Json::array();
  for (const PhaseRow& row : phases.rows) {
    Json json = {{"name", row.name},
                 {"pattern", row.pattern.empty() ? Json() : Json(row.pattern)},
                 {"start_ns", row.start_ns},
                 {"ns", row.ns},
                 {"exits", row.exits},
                 {"guest_ns", report.knows(State::kGuest) ? Json(row.guest_ns) : Json()}};
    add_parts(json, row.parts, report.known_states());
    json["devices"] = shares_json(row.devices);
    json["functions"] = shares_json(row.functions);
    rows.push_back(std::move(json));
  }
  return {{"rows", std::move(rows)}, {"never", phases.never}};
}

void print_side_tables(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.halt_costs) print_halt_costs(report, *report.halt_costs, out, style);
  if (report.phases) print_phases(report, *report.phases, out, style);
}

void print_side_tables_csv(const Report& report, std::ostream& out) {
  if (report.halt_costs) print_halt_costs_csv(*report.halt_costs, out);
  if (report.phases) print_phases_csv(report, *report.phases, out);
}

}  // namespace trapline
