// Turns an Explanation into sentences and tables: docs/explain.md.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/explain/explain.h"
#include "merge/model/kernel_events.h"
#include "merge/report/slow_exits.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::uint64_t part_ns(const Explanation& explanation, Part part) {
  return explanation.exit.span.parts[static_cast<std::size_t>(part)];
}

// Returns "io, port 0x518 write, fwcfg.dma, in outl".
std::string what(const Explanation& explanation) {
  return exit_text(explanation.exit,
                   explanation.accesses > 1
                       ? fmt::format(" (the first of {} accesses)", grouped(explanation.accesses))
                       : std::string());
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
    // A kernel part that is untraced as a whole, or hardly matters, needs no sentence.
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

// Returns "memory_region_ops_write (2), fw_cfg_read": the first names, with the number of each.
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

// Returns what QEMU wrote, by name; the text if there is only one event.
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

// Returns "; for 37.7 ms vm 229 vcpu 0 ran instead, for 185 µs 2 others"; without the time if there
// is only one culprit.
std::string culprits_text(const Explanation& explanation, Part part) {
  const std::uint64_t ns = part_ns(explanation, part);
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

// Returns what one part of the exit was: "QEMU took 37.0 ms (49.2%)".
std::string part_sentence(const Explanation& explanation, Part part) {
  const bool user_known = explanation.known[static_cast<std::size_t>(State::kUser)];
  const std::uint64_t ns = part_ns(explanation, part);
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

// Returns where the time went: the largest part, and each other part of at least a tenth.
std::string parts_sentence(const Explanation& explanation) {
  const ExitSpan& span = explanation.exit.span;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (span.parts[i] != 0 &&
        (span.parts[i] >= span.total() / 10 || static_cast<Part>(i) == largest_part(span)))
      parts.push_back(static_cast<Part>(i));
  }
  std::ranges::stable_sort(
      parts, [&](Part a, Part b) { return part_ns(explanation, a) > part_ns(explanation, b); });
  std::string text;
  for (const Part part : parts)
    text += (text.empty() ? "" : " ") + part_sentence(explanation, part) + '.';
  if (!explanation.known[static_cast<std::size_t>(State::kPreempted)] &&
      largest_part(span) != Part::kHalted)
    text += fmt::format(" Whether the vCPU waited in it was not recorded ({}).",
                        events::sched_switch.full_name);
  return text;
}

// Returns "Meanwhile vcpu 1 ran 3.2 µs, …".
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
  for (std::size_t i = 0; i < parts.size(); ++i)
    sentence += (i == 0 ? " " : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  if (waker.vmm_events.empty()) return sentence + ".";
  sentence += "; its QEMU events: " + names_text(waker.vmm_events);
  return sentence + ".";
}

// Returns the findings as sentences: what the exit was, where its time went, what its waker did.
std::vector<std::string> finding(const Explanation& explanation) {
  const ExitRow& exit = explanation.exit;
  std::vector<std::string> sentences;
  if (explanation.before) sentences.push_back("No exit that ended holds that time. The next one:");
  sentences.push_back(fmt::format("{} left the guest for {}: {}.", exit.vcpu,
                                  duration_text(exit.span.total(), explanation.cycles),
                                  what(explanation)));
  if (!explanation.fault.empty()) sentences.push_back("Why it faulted: " + explanation.fault + '.');
  sentences.push_back(parts_sentence(explanation));
  if (explanation.waker)
    sentences.push_back(waker_sentence(*explanation.waker, explanation.cycles));
  sentences.insert(sentences.end(), explanation.quotas.begin(), explanation.quotas.end());
  return sentences;
}

std::string part_name(Part part) { return std::string(kPartNames[static_cast<std::size_t>(part)]); }

// Returns a duration aligned to the right of a column.
std::string column(std::uint64_t ns, bool cycles, const char* sign = "") {
  constexpr std::size_t kWidth = 10;
  const std::string text = sign + duration_text(ns, cycles);
  const std::size_t width = text_width(text);
  return std::string(width < kWidth ? kWidth - width : 1, ' ') + text;
}

Paragraph and_more(std::size_t count) {
  return {.text = fmt::format("  and {} more", grouped(count)), .verbatim = true};
}

Table culprit_table(const Explanation& explanation) {
  TableOf<WaitedFor> table({.key = "culprits"}, explanation.culprits, &WaitedFor::who);
  table.add({"part"}, [](const WaitedFor& one) { return part_name(one.part); });
  table.add({"culprit"}, &WaitedFor::who);
  table.add({"ns"}, &WaitedFor::ns);
  table.add({"count"}, &WaitedFor::pieces);
  return table;
}

Table kernel_table(const Explanation& explanation) {
  TableOf<KernelPartOf> table({.key = "kernel"}, explanation.kernel, &KernelPartOf::part);
  table.add({"part"}, &KernelPartOf::part);
  table.add({"ns"}, &KernelPartOf::ns);
  table.add({"count"}, &KernelPartOf::pieces);
  return table;
}

Table waker_table(const Explanation& explanation) {
  std::vector<WakerTimes> rows;
  if (explanation.waker) rows.push_back(*explanation.waker);
  TableOf<WakerTimes> table({.key = "waker"}, std::move(rows), &WakerTimes::who);
  table.add({"who"}, &WakerTimes::who);
  table.add({"ran_ns"}, &WakerTimes::ran_ns);
  table.add({"ready_ns"}, &WakerTimes::ready_ns);
  table.add({"slept_ns"}, &WakerTimes::slept_ns);
  table.add({"unknown_ns"}, &WakerTimes::unknown_ns);
  table.children = [all = table.all()](std::size_t row) {
    using Count = std::pair<std::string, std::uint64_t>;
    TableOf<Count> events({.key = "qemu_events"}, all[row].vmm_events, &Count::first);
    events.add({"name"}, &Count::first);
    events.add({"count"}, &Count::second);
    return std::vector<Table>{std::move(events)};
  };
  return table;
}

// `in_text`: text has the table too, which is long.
Table step_table(const Explanation& explanation, bool in_text) {
  TableOf<ExplainStep> table({.key = "steps", .left_out = explanation.steps_left_out},
                             explanation.steps, &ExplainStep::text);
  table.add({"after_ns"}, &ExplainStep::after_ns);
  table.add({"ns"}, &ExplainStep::ns);
  table.add({"part"}, [](const ExplainStep& step) { return part_name(step.part); });
  table.add({"culprit"}, [](const ExplainStep& step) { return text_or_null(step.who); });
  if (!in_text) return table;
  table.before = {{.text = "\nIn order:", .verbatim = true}};
  table.sentences = [all = table.all(), cycles = explanation.cycles](std::size_t row) {
    const ExplainStep& step = all[row];
    return std::vector<Paragraph>{
        {.text = step.text,
         .label = column(step.after_ns, cycles, "+") + column(step.ns, cycles) + ' '}};
  };
  if (table.left_out != 0) table.after = {and_more(table.left_out)};
  return table;
}

Table vmm_event_table(const Explanation& explanation, bool in_text) {
  TableOf<VmmEventText> table({.key = "qemu_events", .left_out = explanation.vmm_events_left_out},
                              explanation.vmm_events, &VmmEventText::name);
  table.add({"after_ns"}, &VmmEventText::after_ns);
  table.add({"name"}, &VmmEventText::name);
  table.add({"text"}, &VmmEventText::text);
  if (!in_text || table.rows == 0) return table;
  table.before = {{.text = "\nQEMU's events:", .verbatim = true}};
  table.sentences = [all = table.all(), cycles = explanation.cycles](std::size_t row) {
    return std::vector<Paragraph>{
        {.text = all[row].text, .label = column(all[row].after_ns, cycles, "+") + ' '}};
  };
  if (table.left_out != 0) table.after = {and_more(table.left_out)};
  return table;
}

// Returns the exit's parts as a tree, and below it when the exit began.
Table tree_in_text(const Explanation& explanation, bool has_steps) {
  Table table = tree_table({tree_of(explanation)});
  table.json = false;
  std::string when =
      "It began at " + time_text(explanation.exit.span.start.ns(), explanation.cycles);
  if (explanation.guest_ns != 0)
    when += ", after the guest ran " + duration_text(explanation.guest_ns, explanation.cycles);
  const std::size_t count = explanation.steps.size() + explanation.steps_left_out;
  if (!has_steps)
    when += fmt::format("; -v prints its {} step{} in order", count, count == 1 ? "" : "s");
  table.after = {{}, {.text = when + '.'}};
  return table;
}

}  // namespace

TableOf<ExplainNode> tree_table(std::vector<ExplainNode> nodes) {
  using Row = ExplainNode;
  TableOf<Row> table({.tree = true}, std::move(nodes), &Row::text);
  table.add({"text"}, &Row::text);
  table.add({.key = "ns", .unit = Unit::kDuration}, &Row::ns);
  table.add({"count"}, [](const Row& row) {
    return row.count == 0 ? CellValue(Absent()) : to_value(row.count);
  });
  table.children = [all = table.all()](std::size_t row) {
    std::vector<Table> tables;
    if (all[row].children.empty()) return tables;
    tables.push_back(tree_table(all[row].children));
    tables.back().key = "children";
    return tables;
  };
  return table;
}

Report make_report(const Explanation& explanation, bool steps) {
  Report report = explanation.begun;
  report.cycles = explanation.cycles;
  const std::vector<std::string> sentences = finding(explanation);
  const auto or_null = [](std::uint64_t number) {
    return number == 0 ? CellValue() : to_value(number);
  };
  report.head.push_back({"guest_ns", or_null(explanation.guest_ns)});
  report.head.push_back({"accesses", or_null(explanation.accesses)});
  report.head.push_back({"finding", sentences});
  report.head.push_back({"open_exits", explanation.open});
  report.head.push_back({"advice", text_or_null(explanation.advice)});
  report.head.push_back({"source", text_or_null(explanation.source)});
  for (const auto* texts : {&explanation.open, &sentences})
    for (const std::string& text : *texts) report.before.push_back({.text = text, .figures = true});
  if (!explanation.advice.empty())
    report.before.push_back(
        {.text = fmt::format("{} ({})", explanation.advice, explanation.source)});
  report.before.emplace_back();
  Table exit = slow_exit_table({explanation.exit}, explanation.known, explanation.has_vmm_events);
  exit.key = "exit";
  for (Table& table :
       std::array{std::move(exit), tree_in_text(explanation, steps), culprit_table(explanation),
                  kernel_table(explanation), waker_table(explanation),
                  step_table(explanation, steps), vmm_event_table(explanation, steps)})
    report.tables.push_back(std::move(table));
  report.notes = explanation.notes;
  for (const std::string& note : report.notes) report.after.push_back(note_paragraph(note));
  return report;
}

}  // namespace trapline
