#include "merge/render/budget.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend_ftrace/base/size.h"
#include "merge/render/render.h"
#include "merge/render/report_json.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

constexpr std::size_t kMostVcpus = 1024;

// The lists that may be cut, each with the most important row first.
constexpr std::array kLists = {"/groups/rows",
                               "/vcpus",
                               "/qemu_events",
                               "/slow_exits/exits",
                               "/request_paths",
                               "/vhost",
                               "/irqs/rows",
                               "/halts",
                               "/halt_costs",
                               "/waits/preempted/rows",
                               "/waits/blocked/rows",
                               "/waits/halted/rows",
                               "/steal",
                               "/guest_functions",
                               "/phases/rows",
                               "/kernel/rows"};

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::vector<VcpuRow> busiest(const Report& report) {
  std::vector<VcpuRow> rows = report.vcpus;
  std::ranges::stable_sort(rows, std::greater(), [](const auto& row) { return row.totals.exits; });
  if (rows.size() > kMostVcpus) rows.resize(kMostVcpus);
  return rows;
}

// One list and how much of it is left.
struct List {
  Json::json_pointer place;
  std::size_t rows, kept, least;
};

// With what the writer of the whole JSON writes row by row.
Json whole(const Report& report) {
  Json json = report_json(report);
  const std::vector<VcpuRow> vcpus = busiest(report);
  json["vcpus"] = rows_json(vcpu_table(vcpus, report));
  if (report.halts) json["halts"] = rows_json(halt_table(report));
  if (report.halt_costs) {
    const Table table = halt_cost_table(report);
    for (std::size_t row = 0; row < table.rows; ++row)
      json["halt_costs"].push_back(halt_cost_json(table, row, report));
  }
  Json counters = Json::object();
  for (const auto& [name, value] : json["counters"].items())
    if (value != 0) counters[name] = value;
  json["counters"] = std::move(counters);
  return json;
}

std::vector<List> lists_of(const Json& json, const Report& report) {
  std::vector<List> lists;
  for (const char* name : kLists) {
    const Json::json_pointer place{name};
    if (!json.contains(place)) continue;
    const std::size_t kept = json.at(place).size();
    const bool vcpus = std::string_view(name) == "/vcpus";
    lists.push_back({place, vcpus ? report.vcpus.size() : kept, kept, lists.empty() ? 1u : 0u});
  }
  return lists;
}

// Halves the list that takes most; false where there is none.
bool cut(Json& json, std::vector<List>& lists) {
  List* largest = nullptr;
  std::size_t most = 0;
  for (List& list : lists) {
    if (list.kept <= list.least) continue;
    const std::size_t size = text_of(json.at(list.place)).size();
    if (size > most) {
      most = size;
      largest = &list;
    }
  }
  if (largest == nullptr) return false;
  largest->kept = std::max(largest->kept / 2, largest->least);
  auto& rows = json.at(largest->place).get_ref<Json::array_t&>();
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(largest->kept), rows.end());
  return true;
}

}  // namespace

Result<std::string> report_within(const Report& report, const RecordingWords& words,
                                  const std::string& all, std::size_t bytes) {
  Json json = whole(report);
  const std::string finding = finding_text(report);
  json["finding"] = finding.empty() ? Json() : Json(finding);
  json["next"] = Json::array();
  for (const NextStep& step : next_steps(report, words))
    json["next"].push_back({{"command", "trapline " + step.command}, {"answers", step.answers}});
  std::vector<List> lists = lists_of(json, report);
  while (true) {
    Json cut_lists = Json::array();
    for (const List& list : lists) {
      if (list.rows != list.kept)
        cut_lists.push_back(
            {{"list", list.place.to_string().substr(1)}, {"rows", list.rows - list.kept}});
    }
    json["left_out"] =
        cut_lists.empty() ? Json() : Json{{"lists", std::move(cut_lists)}, {"command", all}};
    std::string text = text_of(json);
    if (text.size() <= bytes) return text;
    if (!cut(json, lists)) {
      return fail(ErrorKind::kUsage,
                  "--budget: what no report can do without takes {} bytes here; give {} or more",
                  text.size(), size_text((text.size() + kKib - 1) / kKib * kKib));
    }
  }
}

}  // namespace trapline
