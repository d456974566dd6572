#include "merge/render/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "merge/render/units.h"

namespace trapline {
namespace {

using Json = nlohmann::ordered_json;

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
  json["advice"] = explanation.advice.empty() ? Json() : Json(explanation.advice);
  json["source"] = explanation.source.empty() ? Json() : Json(explanation.source);
  json["notes"] = explanation.notes;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace trapline
