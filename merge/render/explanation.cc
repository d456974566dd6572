#include "merge/render/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/report_json.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

constexpr std::size_t kTextColumns = 52;

// "6,583.120": microseconds whose sum is that of the nanoseconds.
std::string exact(std::uint64_t ns, bool cycles) {
  if (cycles) return grouped(ns);
  return fmt::format("{}.{:03}", grouped(ns / 1000), ns % 1000);
}

void print_node(const ExplainNode& node, const std::string& lead, const std::string& below,
                bool cycles, std::ostream& out) {
  const std::string text = lead + node.text;
  const std::size_t width = text_width(text);
  out << text << std::string(width < kTextColumns ? kTextColumns - width : 1, ' ')
      << fmt::format("{:>14}", exact(node.ns, cycles));
  if (node.count > 1) out << fmt::format("  in {} pieces", grouped(node.count));
  out << '\n';
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const bool last = i + 1 == node.children.size();
    print_node(node.children[i], below + (last ? "└ " : "├ "), below + (last ? "  " : "│ "), cycles,
               out);
  }
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

Json waker_json(const WakerTimes& waker) {
  Json json = {{"who", waker.who},
               {"ran_ns", waker.ran_ns},
               {"ready_ns", waker.ready_ns},
               {"slept_ns", waker.slept_ns},
               {"unknown_ns", waker.unknown_ns}};
  json["qemu_events"] = Json::array();
  for (const auto& [name, count] : waker.vmm_events) {
    json["qemu_events"].push_back({{"name", name}, {"count", count}});
  }
  return json;
}

}  // namespace

void print_text(const Explanation& explanation, std::ostream& out, const TextStyle&) {
  const bool cycles = explanation.cycles;
  out << fmt::format("At {}", time_text(explanation.start_ns, cycles));
  if (explanation.guest_ns != 0) {
    out << fmt::format(", after the guest ran {} {}", exact(explanation.guest_ns, cycles),
                       cycles ? "cycles" : "µs");
  }
  const std::string unit = cycles ? "cycles" : "µs";
  out << fmt::format("; times in {}:\n\n", unit);
  print_node(explanation.tree, "", "", cycles, out);
  out << "\nIn order:\n";
  for (const ExplainStep& step : explanation.steps) {
    out << fmt::format("  {:>14} {:>14}  {}\n", "+" + exact(step.after_ns, cycles),
                       exact(step.ns, cycles), step.text);
  }
  if (explanation.steps_left_out != 0)
    out << fmt::format("  and {} more\n", grouped(explanation.steps_left_out));
  out << '\n';
  for (const std::string& sentence : explanation.sentences) out << sentence << '\n';
  if (!explanation.advice.empty())
    out << explanation.advice << "\n(" << explanation.source << ")\n";
  for (const std::string& note : explanation.notes) out << "note: " << note << '\n';
}

void print_json(const Explanation& explanation, std::ostream& out) {
  Json json = {{"version", 1},
               {"time_unit", explanation.cycles ? "cycles" : "ns"},
               {"start_ns", explanation.start_ns},
               {"guest_ns", explanation.guest_ns == 0 ? Json() : Json(explanation.guest_ns)},
               {"tree", node_json(explanation.tree)}};
  json["steps"] = Json::array();
  for (const ExplainStep& step : explanation.steps) {
    json["steps"].push_back({{"after_ns", step.after_ns}, {"ns", step.ns}, {"text", step.text}});
  }
  json["steps_left_out"] = explanation.steps_left_out;
  json["sentences"] = explanation.sentences;
  if (explanation.waker) json["waker"] = waker_json(*explanation.waker);
  json["advice"] = explanation.advice.empty() ? Json() : Json(explanation.advice);
  json["source"] = explanation.source.empty() ? Json() : Json(explanation.source);
  json["notes"] = explanation.notes;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_text(const GuestSpansExplained& spans, std::ostream& out, const TextStyle&) {
  const Histogram& all = spans.all;
  out << fmt::format("{} intervals of {}: p50 {}, p99 {}, max {}\n", grouped(all.count()),
                     spans.spec, duration_text(all.percentile(500), false),
                     duration_text(all.percentile(990), false), duration_text(all.max(), false));
  for (const std::string& clock : spans.clocks) out << "clock of " << clock << '\n';
  out << "\nTimes in µs:\n\n";
  print_node(spans.tree, "", "", false, out);
  out << fmt::format("\nThe {} longest:\n", grouped(spans.worst.size()));
  for (std::size_t i = 0; i < spans.worst.size(); ++i) {
    const ExplainedSpan& span = spans.worst[i];
    out << fmt::format("\n{}. At {}\n", i + 1, time_text(span.start_ns, false));
    print_node(span.tree, "", "", false, out);
    out << span.sentence << '\n';
    if (!span.advice.empty()) out << span.advice << "\n(" << span.source << ")\n";
  }
  print_counters(spans, out);
}

void print_counters(const GuestSpansExplained& spans, std::ostream& out) {
  const std::pair<std::uint64_t, std::string_view> kCounters[] = {
      {spans.restarted, "begun again before they ended"},
      {spans.end_only, "ends of intervals that nothing began"},
      {spans.open, "intervals that never ended"},
      {spans.unplaced, "intervals left out: their vCPU is not known"}};
  std::string counters;
  for (const auto& [count, text] : kCounters) {
    if (count != 0) counters += fmt::format("  {:>12}  {}\n", grouped(count), text);
  }
  if (!counters.empty()) out << "\nCounters\n" << counters;
  for (const std::string& note : spans.notes) out << "note: " << note << '\n';
}

void print_with_counters(Json json, const GuestSpansExplained& spans, std::ostream& out) {
  json["counters"] = {{"restarted", spans.restarted},
                      {"end_only", spans.end_only},
                      {"open", spans.open},
                      {"unplaced", spans.unplaced}};
  json["notes"] = spans.notes;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
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

}  // namespace trapline
