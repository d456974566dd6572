#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/explanation.h"
#include "merge/render/report_json.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

// As the tree of an interval calls its parts, and as keys of JSON and columns of CSV do.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSpanParts{
    {{"guest", "guest_ns"},
     {"kernel", "kernel_ns"},
     {"user", "user_ns"},
     {"preempted", "preempted_ns"},
     {"blocked", "blocked_ns"},
     {"halted", "halted_ns"},
     {"not recorded", "not_recorded_ns"}}};

std::uint64_t part_of(const ExplainNode& tree, std::string_view part) {
  for (const ExplainNode& child : tree.children) {
    if (child.text == part) return child.ns;
  }
  return 0;
}

std::string key_text(const GuestSpanGroup& group) { return group.key.empty() ? "-" : group.key; }

void print_culprits(const ExplainNode& part, std::ostream& out, const TextStyle& style) {
  if (part.children.empty()) return;
  const std::string time = duration_text(part.ns, false);
  std::vector<std::uint64_t> times;
  for (const ExplainNode& culprit : part.children) times.push_back(culprit.ns);
  const Unit unit = choose_unit(times, false);
  TextTable table({part.text == "halted"    ? fmt::format("Halted {}, until", time)
                   : part.text == "blocked" ? fmt::format("Blocked {}, by", time)
                                            : fmt::format("Preempted {}, by", time),
                   fmt::format("time/{}", unit.name), "share", "times"});
  for (const ExplainNode& culprit : part.children) {
    table.add({culprit.text, in_unit(culprit.ns, unit), percent_text(culprit.ns, part.ns),
               grouped(culprit.count)});
  }
  out << '\n';
  table.print(out, style);
}

Json culprits_json(const ExplainNode& tree) {
  Json culprits = Json::array();
  for (const ExplainNode& part : tree.children) {
    for (const ExplainNode& culprit : part.children) {
      culprits.push_back({{"part", part.text},
                          {"culprit", culprit.text},
                          {"ns", culprit.ns},
                          {"count", culprit.count}});
    }
  }
  return culprits;
}

Json row_json(const GuestSpanGroup& group) {
  Json row = {{"key", group.key},
              {"count", group.all.count()},
              {"total_ns", group.all.total()},
              {"p50_ns", value_or_null(group.all.percentile(500))},
              {"p99_ns", value_or_null(group.all.percentile(990))},
              {"max_ns", group.all.max()}};
  for (const auto& [text, key] : kSpanParts) row[std::string(key)] = part_of(group.tree, text);
  return row;
}

}  // namespace

void print_span_table(const GuestSpansExplained& spans, std::size_t top, std::ostream& out,
                      const TextStyle& style) {
  out << fmt::format("{} intervals of {}, {} together\n", grouped(spans.all.count()), spans.spec,
                     duration_text(spans.all.total(), false));
  for (const std::string& clock : spans.clocks) out << "clock of " << clock << '\n';
  out << '\n';
  std::vector<std::uint64_t> totals, medians, longest;
  for (const GuestSpanGroup& group : spans.groups) {
    totals.push_back(group.all.total());
    medians.push_back(group.all.percentile(500).value_or(0));
    longest.push_back(group.all.max());
  }
  const Unit total = choose_unit(totals, false), median = choose_unit(medians, false),
             most = choose_unit(longest, false);
  TextTable table({"interval", "count", fmt::format("total/{}", total.name),
                   fmt::format("p50/{}", median.name), fmt::format("max/{}", most.name), "guest",
                   "kernel", "user", "preempted", "blocked", "halted"});
  const std::size_t shown = top == 0 ? spans.groups.size() : std::min(top, spans.groups.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const GuestSpanGroup& group = spans.groups[i];
    std::vector<std::string> cells = {
        key_text(group), grouped(group.all.count()), in_unit(group.all.total(), total),
        in_unit(group.all.percentile(500), median), in_unit(group.all.max(), most)};
    for (std::size_t part = 0; part < kSpanParts.size() - 1; ++part) {
      cells.push_back(percent_text(part_of(group.tree, kSpanParts[part].first), group.tree.ns));
    }
    table.add(std::move(cells));
  }
  table.print(out, style);
  print_left_out(spans.groups.size() - shown, out);
  const std::uint64_t missing = part_of(spans.tree, kSpanParts.back().first);
  if (missing != 0) {
    out << fmt::format("Not recorded: {} of all of them.\n", percent_text(missing, spans.tree.ns));
  }
  for (const ExplainNode& part : spans.tree.children) {
    print_culprits(part, out, style);
  }
  print_counters(spans, out);
}

Json guest_spans_json(const GuestSpansExplained& spans, std::size_t most) {
  Json json = {{"spec", spans.spec},
               {"clocks", spans.clocks},
               {"count", spans.all.count()},
               {"total_ns", spans.all.total()},
               {"p50_ns", value_or_null(spans.all.percentile(500))},
               {"max_ns", spans.all.max()}};
  for (const auto& [text, key] : kSpanParts) json[std::string(key)] = part_of(spans.tree, text);
  json["rows"] = Json::array();
  for (const GuestSpanGroup& group : spans.groups) {
    if (json["rows"].size() >= most) break;
    json["rows"].push_back(row_json(group));
  }
  json["rows_left_out"] = spans.groups.size() - json["rows"].size();
  json["culprits"] = culprits_json(spans.tree);
  json["worst"] = worst_json(spans);
  json["counters"] = {{"restarted", spans.restarted},
                      {"end_only", spans.end_only},
                      {"open", spans.open},
                      {"unplaced", spans.unplaced}};
  return json;
}

void print_span_table_json(const GuestSpansExplained& spans, std::ostream& out) {
  Json json = {{"version", 1},
               {"time_unit", "ns"},
               {"by", "guest-span"},
               {"guest_span", spans.spec},
               {"clocks", spans.clocks},
               {"count", spans.all.count()},
               {"total_ns", spans.all.total()}};
  json["rows"] = Json::array();
  for (const GuestSpanGroup& group : spans.groups) {
    Json row = row_json(group);
    row["culprits"] = culprits_json(group.tree);
    json["rows"].push_back(std::move(row));
  }
  json["culprits"] = culprits_json(spans.tree);
  print_with_counters(std::move(json), spans, out);
}

void print_span_table_csv(const GuestSpansExplained& spans, std::ostream& out) {
  out << "interval,count,total_ns,p50_ns,p99_ns,max_ns";
  for (const auto& [text, key] : kSpanParts) out << ',' << key;
  out << '\n';
  for (const GuestSpanGroup& group : spans.groups) {
    out << fmt::format("{},{},{},{},{},{}", csv_cell(group.key), group.all.count(),
                       group.all.total(), csv_number(group.all.percentile(500)),
                       csv_number(group.all.percentile(990)), group.all.max());
    for (const auto& [text, key] : kSpanParts) out << ',' << part_of(group.tree, text);
    out << '\n';
  }
}

}  // namespace trapline
