#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/explanation.h"
#include "merge/render/report_json.h"
#include "merge/render/report_text.h"
#include "merge/render/tables.h"
#include "merge/report/units.h"

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

// Who kept the vCPUs waiting in a part.
struct CulpritRow {
  const ExplainNode* part;
  const ExplainNode* culprit;
};

std::vector<CulpritRow> culprits_of(std::span<const ExplainNode> parts) {
  std::vector<CulpritRow> rows;
  for (const ExplainNode& part : parts)
    for (const ExplainNode& culprit : part.children) rows.push_back({&part, &culprit});
  return rows;
}

Table culprit_table(std::span<const CulpritRow> rows) {
  using Row = CulpritRow;
  TableOf<Row> table(rows, [](const Row& row) { return row.culprit->text; });
  table.add({"part"}, [](const Row& row) { return row.part->text; });
  table.add({"culprit"}, [](const Row& row) { return row.culprit->text; });
  table.add({"ns", "time", Unit::kDuration}, [](const Row& row) { return row.culprit->ns; });
  table.add({.title = "share", .unit = Unit::kShare}, [](const Row& row) {
    return Share{row.culprit->ns, row.part->ns};
  });
  table.add({"count", "times"}, [](const Row& row) { return row.culprit->count; });
  return table;
}

Json culprits_json(const ExplainNode& tree) {
  return rows_json(culprit_table(culprits_of(tree.children)));
}

void print_culprits(const ExplainNode& part, std::ostream& out, const TextStyle& style) {
  const std::string time = duration_text(part.ns, false);
  print_table(culprit_table(culprits_of({&part, 1})),
              part.text == "halted"    ? fmt::format("Halted {}, until", time)
              : part.text == "blocked" ? fmt::format("Blocked {}, by", time)
                                       : fmt::format("Preempted {}, by", time),
              false, out, style);
}

Table span_table(std::span<const GuestSpanGroup> groups) {
  using Row = GuestSpanGroup;
  TableOf<Row> table(groups, [](const Row& row) { return row.key.empty() ? "-" : row.key; });
  table.add({.key = "key", .csv = false}, &Row::key);
  table.add({.key = "interval", .json = false}, &Row::key);
  table.add({"count", "count"}, [](const Row& row) { return row.all.count(); });
  table.add({"total_ns", "total", Unit::kDuration}, [](const Row& row) { return row.all.total(); });
  table.add({"p50_ns", "p50", Unit::kDuration},
            [](const Row& row) { return row.all.percentile(500); });
  table.add({"p99_ns"}, [](const Row& row) { return row.all.percentile(990); });
  table.add({"max_ns", "max", Unit::kDuration}, [](const Row& row) { return row.all.max(); });
  for (const auto& part : kSpanParts) {
    const std::string_view text = part.first;
    table.add(
        {std::string(part.second), std::string(text == "not recorded" ? "" : text), Unit::kShare},
        [text](const Row& row) {
          return Share{part_of(row.tree, text), row.tree.ns};
        });
  }
  return table;
}

std::vector<CounterRow> counter_rows(const GuestSpansExplained& spans) {
  return {{"restarted", spans.restarted, "begun again before they ended"},
          {"end_only", spans.end_only, "ends of intervals that nothing began"},
          {"open", spans.open, "intervals that never ended"},
          {"unplaced", spans.unplaced,
           "intervals left out: their vCPU is not known, or too many overlap"}};
}

// "\nCounters\n…" of those that are not 0, then the notes.
void print_counters(const GuestSpansExplained& spans, std::ostream& out, const TextStyle& style) {
  print_counters(counter_rows(spans), out, style);
  for (const std::string& note : spans.notes)
    print_wrapped("note:", note, out, style, {.label = kBold});
}

// `json` with the counters and notes after it.
void print_with_counters(Json json, const GuestSpansExplained& spans, std::ostream& out) {
  json["counters"] = counters_json(counter_rows(spans));
  json["notes"] = spans.notes;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json node_json(const ExplainNode& node) {
  Json json = {{"text", node.text}, {"ns", node.ns}};
  if (node.count != 0) json["count"] = node.count;
  if (!node.children.empty()) {
    json["children"] = Json::array();
    for (const ExplainNode& child : node.children) json["children"].push_back(node_json(child));
  }
  return json;
}

Json worst_json(const GuestSpansExplained& spans) {
  Json worst = Json::array();
  for (const ExplainedSpan& span : spans.worst) {
    worst.push_back({{"start_ns", span.start_ns},
                     {"tree", node_json(span.tree)},
                     {"sentence", span.sentence},
                     {"advice", span.advice.empty() ? Json() : Json(span.advice)},
                     {"source", span.source.empty() ? Json() : Json(span.source)}});
  }
  return worst;
}

}  // namespace

void print_text(const GuestSpansExplained& spans, std::ostream& out, const TextStyle& style) {
  const Histogram& all = spans.all;
  print_wrapped(
      fmt::format("{} intervals of {}: p50 {}, p99 {}, max {}", grouped(all.count()), spans.spec,
                  duration_text(all.percentile(500), false),
                  duration_text(all.percentile(990), false), duration_text(all.max(), false)),
      out, style, {.figures = true});
  for (const std::string& clock : spans.clocks) print_wrapped("clock of " + clock, out, style);
  out << '\n';
  print_tree(spans.tree, false, out, style);
  out << fmt::format("\nThe {} longest:\n", grouped(spans.worst.size()));
  for (std::size_t i = 0; i < spans.worst.size(); ++i) {
    const ExplainedSpan& span = spans.worst[i];
    out << fmt::format("\n{}. At {}\n", i + 1, time_text(span.start_ns, false));
    print_tree(span.tree, false, out, style);
    print_wrapped(span.sentence, out, style, {.figures = true});
    if (span.advice.empty()) continue;
    print_wrapped(span.advice, out, style);
    print_wrapped('(' + span.source + ')', out, style);
  }
  print_counters(spans, out, style);
}

void print_json(const GuestSpansExplained& spans, std::ostream& out) {
  Json json = {{"version", 1},
               {"guest_span", spans.spec},
               {"count", spans.all.count()},
               {"total_ns", spans.all.total()},
               {"p50_ns", value_or_null(spans.all.percentile(500))},
               {"p99_ns", value_or_null(spans.all.percentile(990))},
               {"max_ns", spans.all.max()},
               {"clocks", spans.clocks},
               {"tree", node_json(spans.tree)}};
  json["worst"] = worst_json(spans);
  print_with_counters(std::move(json), spans, out);
}

void print_csv(const GuestSpansExplained& spans, std::ostream& out) {
  out << "rank,start_ns,interval,interval_ns,part,culprit,ns\n";
  for (std::size_t i = 0; i < spans.worst.size(); ++i) {
    const ExplainedSpan& span = spans.worst[i];
    const auto row = [&](const std::string& part, const std::string& culprit, std::uint64_t ns) {
      out << fmt::format("{},{},{},{},{},{},{}\n", i + 1, span.start_ns, csv_cell(span.tree.text),
                         span.tree.ns, part, culprit.empty() ? "" : csv_cell(culprit), ns);
    };
    for (const ExplainNode& part : span.tree.children) {
      if (part.children.empty()) row(part.text, "", part.ns);
      for (const ExplainNode& culprit : part.children) row(part.text, culprit.text, culprit.ns);
    }
  }
}

void print_span_table(const GuestSpansExplained& spans, std::size_t top, std::ostream& out,
                      const TextStyle& style) {
  out << fmt::format("{} intervals of {}, {} together\n", grouped(spans.all.count()), spans.spec,
                     duration_text(spans.all.total(), false));
  for (const std::string& clock : spans.clocks) print_wrapped("clock of " + clock, out, style);
  const std::size_t shown = top == 0 ? spans.groups.size() : std::min(top, spans.groups.size());
  Table table = span_table(std::span(spans.groups).first(shown));
  table.left_out = spans.groups.size() - shown;
  print_table(table, "interval", false, out, style);
  const std::uint64_t missing = part_of(spans.tree, kSpanParts.back().first);
  if (missing != 0) {
    out << fmt::format("Not recorded: {} of all of them.\n", percent_text(missing, spans.tree.ns));
  }
  for (const ExplainNode& part : spans.tree.children) {
    print_culprits(part, out, style);
  }
  print_counters(spans, out, style);
}

Json guest_spans_json(const GuestSpansExplained& spans, std::size_t most) {
  Json json = {{"spec", spans.spec},
               {"clocks", spans.clocks},
               {"count", spans.all.count()},
               {"total_ns", spans.all.total()},
               {"p50_ns", value_or_null(spans.all.percentile(500))},
               {"max_ns", spans.all.max()}};
  for (const auto& [text, key] : kSpanParts) json[std::string(key)] = part_of(spans.tree, text);
  json["rows"] =
      rows_json(span_table(std::span(spans.groups).first(std::min(most, spans.groups.size()))));
  json["rows_left_out"] = spans.groups.size() - json["rows"].size();
  json["culprits"] = culprits_json(spans.tree);
  json["worst"] = worst_json(spans);
  json["counters"] = counters_json(counter_rows(spans));
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
  json["rows"] = rows_json(span_table(spans.groups));
  for (std::size_t i = 0; i < spans.groups.size(); ++i)
    json["rows"][i]["culprits"] = culprits_json(spans.groups[i].tree);
  json["culprits"] = culprits_json(spans.tree);
  print_with_counters(std::move(json), spans, out);
}

void print_span_table_csv(const GuestSpansExplained& spans, std::ostream& out) {
  print_csv(span_table(spans.groups), out);
}

}  // namespace trapline
