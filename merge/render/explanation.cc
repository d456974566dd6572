#include "merge/render/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "merge/model/kernel_events.h"
#include "merge/render/report_json.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kTextColumns = 52, kTimeColumns = 9, kShareColumns = 8;

std::string pieces_text(const ExplainNode& node) {
  return node.count > 1 ? fmt::format("  in {} pieces", grouped(node.count)) : std::string();
}

std::size_t pieces_columns(const ExplainNode& node) {
  std::size_t columns = text_width(pieces_text(node));
  for (const ExplainNode& child : node.children) columns = std::max(columns, pieces_columns(child));
  return columns;
}

struct TreeStyle {
  TextStyle terminal;
  std::uint64_t whole;
  std::size_t columns;  // of the text
  bool cycles;
};

// `below`: what the lines begin with that stand below the first, and the children's.
void print_node(const ExplainNode& node, const std::string& lead, const std::string& below,
                std::string_view look, const TreeStyle& style, std::ostream& out) {
  std::string text = lead + node.text;
  std::string rest;
  if (style.terminal.width != TextStyle().width && text_width(text) > style.columns)
    rest = cut_at_blank(text, style.columns);
  const std::size_t width = text_width(text);
  const std::string time = duration_text(node.ns, style.cycles);
  const std::size_t time_width = text_width(time);
  out << text << std::string(width < style.columns ? style.columns - width : 1, ' ')
      << std::string(time_width < kTimeColumns ? kTimeColumns - time_width : 1, ' ')
      << looking(look, time, style.terminal)
      << fmt::format("{:>{}}", percent_text(node.ns, style.whole), kShareColumns)
      << pieces_text(node) << '\n';
  while (!rest.empty()) {
    std::string line = below + (node.children.empty() ? "" : "│ ") + std::exchange(rest, {});
    rest = cut_at_blank(line, style.columns);
    out << line << '\n';
  }
  const auto largest = std::ranges::max_element(node.children, {}, &ExplainNode::ns);
  for (auto child = node.children.begin(); child != node.children.end(); ++child) {
    const bool last = child + 1 == node.children.end();
    print_node(*child, below + (last ? "└ " : "├ "), below + (last ? "  " : "│ "),
               lead.empty() && child == largest ? look_of_part(child->text) : "", style, out);
  }
}

}  // namespace

void print_tree(const ExplainNode& tree, bool cycles, std::ostream& out, const TextStyle& style) {
  constexpr std::size_t kGaps = 2;  // before a time that fills its column, and after a long text
  const std::size_t figures = kGaps + kTimeColumns + kShareColumns + pieces_columns(tree);
  constexpr std::size_t kFewest = 16;
  const std::size_t room = style.width - std::min(style.width - kFewest, figures);
  print_node(tree, "", "", "", {style, tree.ns, std::min(kTextColumns, room), cycles}, out);
}

namespace {

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

std::uint64_t part_of(const Explanation& explanation, Part part) {
  return explanation.exit.span.parts[static_cast<std::size_t>(part)];
}

// "io, port 0x518 write, fwcfg.dma, in outl".
std::string what(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  std::string text = exit.reason;
  if (exit.detail != "-") text += ", " + exit.detail;
  if (explanation.accesses > 1)
    text += fmt::format(" (the first of {} accesses)", grouped(explanation.accesses));
  if (exit.device != "-") text += ", " + exit.device;
  if (exit.function == kHiddenFunction) return text + ", rip " + exit.function;
  return exit.function == "-" ? text : text + ", in " + exit.function;
}

ExplainNode tree_of(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  ExplainNode tree{fmt::format("{}, {}", exit.vcpu, what(explanation)), exit.span.total(), 0, {}};
  for (std::size_t i = 0; i < kParts; ++i) {
    if (exit.span.parts[i] == 0) continue;
    const bool or_user = static_cast<Part>(i) == Part::kKernel &&
                         !explanation.known[static_cast<std::size_t>(State::kUser)];
    ExplainNode node{or_user ? "kernel or " + explanation.vmm : std::string(kPartNames[i]),
                     exit.span.parts[i],
                     0,
                     {}};
    for (const WaitedFor& one : explanation.culprits) {
      if (one.part == static_cast<Part>(i))
        node.children.push_back({one.who, one.ns, one.pieces, {}});
    }
    // Nothing is said of a time that is untraced as a whole, or that hardly matters.
    if (static_cast<Part>(i) == Part::kKernel && explanation.traced() &&
        exit.span.parts[i] >= exit.span.total() / 10) {
      node.children = explanation.kernel_functions;
      for (const KernelPartOf& one : explanation.kernel) {
        if (explanation.kernel_functions.empty())
          node.children.push_back({one.part, one.ns, one.pieces, {}});
      }
    }
    tree.children.push_back(std::move(node));
  }
  return tree;
}

// "memory_region_ops_write (2), fw_cfg_read": the first names, and how many of each.
std::string names_text(std::span<const std::pair<std::string, std::uint64_t>> counts) {
  constexpr std::size_t kMostNames = 4;
  std::string text;
  for (const auto& [name, count] : counts.first(std::min(counts.size(), kMostNames))) {
    text += (text.empty() ? "" : ", ") + name;
    if (count != 1) text += fmt::format(" ({})", count);
  }
  if (counts.size() > kMostNames) text += fmt::format(" and {} more", counts.size() - kMostNames);
  return text;
}

// What QEMU wrote, by name; its text where there is but one event.
std::string events_text(const Explanation& explanation) {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  const VmmEventText* only = nullptr;
  for (const VmmEventText& event : explanation.vmm_events) {
    if (event.of_run) continue;
    only = counts.empty() ? &event : nullptr;
    const auto found =
        std::ranges::find(counts, event.name, &std::pair<std::string, std::uint64_t>::first);
    if (found == counts.end()) {
      counts.emplace_back(event.name, 1);
    } else {
      ++found->second;
    }
  }
  return only != nullptr ? only->text : names_text(counts);
}

// "; for 37.7 ms vm 229 vcpu 0 ran instead, for 185 µs 2 others"; of one culprit without its time.
std::string culprits_text(const Explanation& explanation, Part part) {
  const std::uint64_t ns = part_of(explanation, part);
  std::vector<std::pair<std::uint64_t, std::string>> named;
  std::size_t others = 0;
  std::uint64_t other_ns = 0;
  std::string_view other;
  for (const WaitedFor& one : explanation.culprits) {
    if (one.part != part) continue;
    if (one.pieces == 0) {  // the rest of a halt
      if (one.ns >= ns / 10) named.emplace_back(one.ns, one.who);
    } else if (named.empty() || one.ns >= ns / 100) {
      named.emplace_back(one.ns, one.how);
    } else {
      ++others;
      other_ns += one.ns;
      other = one.how;
    }
  }
  if (others != 0)
    named.emplace_back(other_ns, others == 1 ? other : fmt::format("{} others", others));
  const bool ready = part == Part::kPreempted;
  if (named.empty()) return {};
  if (named.size() == 1 && named[0].first == ns) return (ready ? "; " : " ") + named[0].second;
  std::string text;
  for (const auto& [time, how] : named) {
    text += fmt::format("{} {}{} {}", text.empty() ? ready ? ";" : ":" : ",", ready ? "for " : "",
                        duration_text(time, explanation.cycles), how);
  }
  return text;
}

// What one part of the exit was: "QEMU took 37.0 ms (49.2%)".
std::string part_sentence(const Explanation& explanation, Part part) {
  const bool user_known = explanation.known[static_cast<std::size_t>(State::kUser)];
  const std::uint64_t ns = part_of(explanation, part);
  const std::string time = fmt::format("{} ({})", duration_text(ns, explanation.cycles),
                                       percent_text(ns, explanation.exit.span.total()));
  switch (part) {
    case Part::kKernel:
      return fmt::format("The host's kernel{} took {}", user_known ? "" : " or " + explanation.vmm,
                         time);
    case Part::kUser: {
      std::string vmm = explanation.vmm;
      if (vmm.starts_with("the ")) vmm.front() = 'T';  // it begins a sentence
      const std::string events = events_text(explanation);
      if (events.empty()) return fmt::format("{} took {}", vmm, time);
      return fmt::format(
          "{} took {}; its events there: {}{}", vmm, time, events,
          explanation.device_told ? "" : "; no event of the device itself was recorded");
    }
    case Part::kPreempted:
      return fmt::format("For {} it was ready to run and did not run{}", time,
                         culprits_text(explanation, part));
    case Part::kBlocked:
      return fmt::format("For {} it slept{}", time, culprits_text(explanation, part));
    case Part::kHalted:
      return fmt::format("For {} the guest was halted{}", time, culprits_text(explanation, part));
  }
  return {};
}

// Where the time went: the largest part, and each other of a tenth and more.
std::string parts_sentence(const Explanation& explanation) {
  const ExitSpan& span = explanation.exit.span;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (span.parts[i] != 0 &&
        (span.parts[i] >= span.total() / 10 || static_cast<Part>(i) == largest_part(span)))
      parts.push_back(static_cast<Part>(i));
  }
  std::ranges::stable_sort(
      parts, [&](Part a, Part b) { return part_of(explanation, a) > part_of(explanation, b); });
  std::string text;
  for (const Part part : parts) {
    text += (text.empty() ? "" : " ") + part_sentence(explanation, part) + '.';
  }
  if (!explanation.known[static_cast<std::size_t>(State::kPreempted)] &&
      largest_part(span) != Part::kHalted)
    text += fmt::format(" Whether the vCPU waited in it was not recorded ({}).",
                        events::sched_switch.full_name);
  return text;
}

// "Meanwhile vcpu 1 ran 3.2 µs, …".
std::string waker_sentence(const WakerTimes& waker, bool cycles) {
  std::vector<std::string> parts;
  const std::pair<std::uint64_t, std::string_view> times[] = {
      {waker.ran_ns, "ran {}"},
      {waker.ready_ns, "was ready to run for {}"},
      {waker.slept_ns, "slept for {}"},
      {waker.unknown_ns, "did what is not recorded for {}"}};
  for (const auto& [ns, text] : times) {
    if (ns != 0) parts.push_back(fmt::format(fmt::runtime(text), duration_text(ns, cycles)));
  }
  std::string sentence = "Meanwhile " + waker.who;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sentence += (i == 0 ? " " : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  if (waker.vmm_events.empty()) return sentence + ".";
  sentence += "; its QEMU events: " + names_text(waker.vmm_events);
  return sentence + ".";
}

// What was found, in plain sentences: what the exit was, where its time went, what its waker did.
std::vector<std::string> finding(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  std::vector<std::string> sentences;
  if (explanation.before) sentences.push_back("No exit holds that time. The next one:");
  sentences.push_back(fmt::format("{} left the guest for {}: {}.", exit.vcpu,
                                  duration_text(exit.span.total(), explanation.cycles),
                                  what(explanation)));
  sentences.push_back(parts_sentence(explanation));
  if (explanation.waker)
    sentences.push_back(waker_sentence(*explanation.waker, explanation.cycles));
  sentences.insert(sentences.end(), explanation.quotas.begin(), explanation.quotas.end());
  return sentences;
}

void print_steps(const Explanation& explanation, std::ostream& out, const TextStyle& style) {
  const bool cycles = explanation.cycles;
  const auto column = [](const std::string& text) {
    const std::size_t width = text_width(text);
    return std::string(width < 10 ? 10 - width : 1, ' ') + text;
  };
  out << "\nIn order:\n";
  for (const ExplainStep& step : explanation.steps) {
    const std::string after = column("+" + duration_text(step.after_ns, cycles));
    print_wrapped(after + column(duration_text(step.ns, cycles)) + ' ', step.text, out, style);
  }
  if (explanation.steps_left_out != 0)
    out << fmt::format("  and {} more\n", grouped(explanation.steps_left_out));
  if (explanation.vmm_events.empty()) return;
  out << "\nQEMU's events:\n";
  for (const VmmEventText& event : explanation.vmm_events) {
    print_wrapped(column("+" + duration_text(event.after_ns, cycles)) + ' ', event.text, out,
                  style);
  }
  if (explanation.vmm_events_left_out != 0)
    out << fmt::format("  and {} more\n", grouped(explanation.vmm_events_left_out));
}

}  // namespace

void print_text(const Explanation& explanation, bool steps, std::ostream& out,
                const TextStyle& style) {
  const bool cycles = explanation.cycles;
  for (const std::string& sentence : finding(explanation))
    print_wrapped("", sentence, out, style, {.figures = true});
  if (!explanation.advice.empty())
    print_wrapped("", fmt::format("{} ({})", explanation.advice, explanation.source), out, style);
  out << '\n';
  print_tree(tree_of(explanation), cycles, out, style);
  std::string when = "It began at " + time_text(explanation.exit.span.start.ns(), cycles);
  if (explanation.guest_ns != 0)
    when += ", after the guest ran " + duration_text(explanation.guest_ns, cycles);
  const std::size_t count = explanation.steps.size() + explanation.steps_left_out;
  if (!steps)
    when += fmt::format("; -v prints its {} step{} in order", count, count == 1 ? "" : "s");
  out << '\n';
  print_wrapped("", when + '.', out, style);
  if (steps) print_steps(explanation, out, style);
  for (const std::string& note : explanation.notes)
    print_wrapped("note:", note, out, style, {.label = kBold});
}

void print_json(const Explanation& explanation, std::ostream& out) {
  Json json = {{"version", 1},
               {"time_unit", explanation.cycles ? "cycles" : "ns"},
               {"exit", row_json(slow_exit_table(std::span(&explanation.exit, 1), explanation.known,
                                                 explanation.has_vmm_events),
                                 0)},
               {"guest_ns", explanation.guest_ns == 0 ? Json() : Json(explanation.guest_ns)},
               {"accesses", explanation.accesses == 0 ? Json() : Json(explanation.accesses)}};
  json["culprits"] = Json::array();
  for (const WaitedFor& one : explanation.culprits) {
    json["culprits"].push_back({{"part", kPartNames[static_cast<std::size_t>(one.part)]},
                                {"culprit", one.who},
                                {"ns", one.ns},
                                {"count", one.pieces}});
  }
  json["kernel"] = Json::array();
  for (const KernelPartOf& one : explanation.kernel)
    json["kernel"].push_back({{"part", one.part}, {"ns", one.ns}, {"count", one.pieces}});
  json["waker"] = explanation.waker ? waker_json(*explanation.waker) : Json();
  json["qemu_events"] = Json::array();
  for (const VmmEventText& event : explanation.vmm_events) {
    json["qemu_events"].push_back(
        {{"after_ns", event.after_ns}, {"name", event.name}, {"text", event.text}});
  }
  json["qemu_events_left_out"] = explanation.vmm_events_left_out;
  json["steps"] = Json::array();
  for (const ExplainStep& step : explanation.steps) {
    json["steps"].push_back({{"after_ns", step.after_ns},
                             {"ns", step.ns},
                             {"part", kPartNames[static_cast<std::size_t>(step.part)]},
                             {"culprit", step.who.empty() ? Json() : Json(step.who)}});
  }
  json["steps_left_out"] = explanation.steps_left_out;
  json["finding"] = finding(explanation);
  json["advice"] = explanation.advice.empty() ? Json() : Json(explanation.advice);
  json["source"] = explanation.source.empty() ? Json() : Json(explanation.source);
  json["notes"] = explanation.notes;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace trapline
