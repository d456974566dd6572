#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/render/render.h"
#include "merge/render/report_text.h"
#include "merge/render/tables.h"
#include "merge/report/common_columns.h"
#include "merge/report/next_steps.h"
#include "merge/report/notes.h"
#include "merge/report/slow_exits.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"
#include "merge/source/stream_copy.h"

namespace trapline {
namespace {

void print_sources(const Report& report, std::ostream& out, const TextStyle& style) {
  for (const SourceRow& source : report.sources) {
    const std::string resolution =
        source.resolution_ns ? fmt::format(", resolution {} ns", *source.resolution_ns) : "";
    print_wrapped(
        fmt::format("{}: {} events{}, clock {}{}",
                    source.path == kStandardInput ? "standard input" : printable(source.path),
                    grouped(source.events), report.is_window ? " read" : "",
                    printable(source.clock), resolution),
        out, style);
    const SourceAlignment& aligned = source.aligned;
    const bool same_clock = aligned.is_same_clock();
    if (same_clock && !aligned.one_boot_error_ns) continue;
    std::string text = aligned.text();
    if (!same_clock) text += fmt::format("; offset {} ns", aligned.offset_ns);
    text += aligned.error_ns ? fmt::format(" ± {} ns", *aligned.error_ns)
                             : std::string(same_clock ? "; error not known" : ", error not known");
    if (aligned.one_boot_error_ns.value_or(0) != 0)
      text += fmt::format(" (± {} ns if it is one boot)", *aligned.one_boot_error_ns);
    if (aligned.rate_change_ppm)
      text += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                          *aligned.rate_change_ppm);
    print_wrapped("  clock:", text, out, style);
  }
}

// What is printed and does not heed which vCPUs were asked for.
std::string of_all_vcpus(const Report& report) {
  std::string text;
  if (report.rows_of == RowsOf::kRequests) text += "requests, ";
  if (report.irqs) text += "interrupts, ";
  if (report.by.find("qemu-event") != std::string::npos) text += "QEMU's events, ";
  if (text.empty()) return "the counters";
  text.resize(text.size() - 2);
  return text + " and the counters";
}

// What was asked for, and what else is told all the same.
void print_selection(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.vcpus_asked.empty()) {
    print_wrapped(fmt::format("Only the vCPUs with {} are counted; {} are of all vCPUs.",
                              report.vcpus_asked.text(), of_all_vcpus(report)),
                  out, style);
  }
  if (report.exits_asked.empty() || report.rows_of != RowsOf::kExits) return;
  print_wrapped(fmt::format("Only exits with {} are in the rows, {} of {}; the vCPUs' times are "
                            "those of all exits.",
                            report.exits_asked.text(), grouped(report.exits_in_rows),
                            grouped(report.all_exits)),
                out, style);
}

void print_losses(const Report& report, std::ostream& out, const TextStyle& style) {
  const ReportCounters& counters = report.counters;
  if (counters.gaps == 0) return;
  std::string text = losses_text(counters);
  const std::uint64_t left_out = counters.exits.closed_by_loss;
  if (left_out != 0)
    text += fmt::format("; left out: {} exit{} whose end may be among them", grouped(left_out),
                        left_out == 1 ? "" : "s");
  print_wrapped("LOST:", text, out, style, {.label = kAlarm});
}

void print_head(const Report& report, std::ostream& out, const TextStyle& style) {
  const std::string finding = finding_text(report);
  if (!finding.empty()) print_wrapped(finding, out, style, {.figures = true});
  print_losses(report, out, style);
  print_sources(report, out, style);
  const bool calls = report.rows_of == RowsOf::kCalls;
  std::uint64_t exits = 0;
  for (const VcpuRow& row : report.vcpus) exits += row.totals.exits;
  const std::string interval = duration_text(report.end_ns - report.start_ns, report.cycles);
  if (report.lacks_entries && !calls) {
    out << fmt::format("exits in {}: not counted ({} was not recorded)\n", interval,
                       events::kvm_entry.name);
  } else {
    out << fmt::format("{} {} in {}\n", grouped(calls ? report.counters.calls.calls : exits),
                       calls ? "calls of guest functions" : "exits", interval);
  }
  print_selection(report, out, style);
}

constexpr std::size_t kMostVcpuRows = 16;

// Where there are many, the busiest in their order, and a row that sums up all.
std::vector<VcpuRow> shown_vcpus(const Report& report) {
  std::vector<VcpuRow> rows = report.vcpus;
  if (rows.size() > kMostVcpuRows) {
    std::ranges::stable_sort(rows, std::greater(),
                             [](const VcpuRow& row) { return row.totals.exits; });
    rows.resize(kMostVcpuRows);
    std::ranges::sort(rows, {},
                      [](const auto& row) { return std::tie(row.vm, row.vcpu, row.tid); });
  }
  if (report.vcpus.size() == 1 || report.rows_of == RowsOf::kCalls) return rows;
  VcpuRow& all = rows.emplace_back();
  for (const VcpuRow& row : report.vcpus) all.totals.add(row.totals);
  return rows;
}

void print_vcpus(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.vcpus.empty()) return;
  const bool calls = report.rows_of == RowsOf::kCalls;
  const std::vector<VcpuRow> rows = shown_vcpus(report);
  Table table = vcpu_table(rows, report);
  if (report.vcpus.size() > 1 && !calls) {
    const std::string all = fmt::format("all {} vCPUs", report.vcpus.size());
    const std::size_t last = rows.size() - 1;
    table.name = [all, name = table.name, last](std::size_t row) {
      return row == last ? all : name(row);
    };
    // Their rates together; the other figures of the row are sums by themselves.
    const CellValue rates = to_value(exits_per_second_together(report));
    for (Table::Described& column : table.columns) {
      if (column.title != kRateTitle) continue;
      column.value = [rates, value = column.value, last](std::size_t row) {
        return row == last ? rates : value(row);
      };
    }
  }
  print_table(table, calls ? "Share of wall time" : "Share of the vCPU's time", report.cycles, out,
              style);
  if (report.vcpus.size() > kMostVcpuRows) {
    print_wrapped(
        fmt::format(
            "{} vCPUs with fewer {} are not shown (--by vm sums those of each VM, --vm shows one).",
            report.vcpus.size() - kMostVcpuRows, name_of(report.rows_of)),
        out, style);
  }
  if (calls) {
    print_wrapped(
        "The time elsewhere is in functions that were not recorded, before the first call "
        "and after the last.",
        out, style);
  }
}

// The rows of exits, those that --top left out in one, all in one; then those of halts.
std::vector<GroupRow> shown_rows(const Report& report) {
  std::vector<GroupRow> rows = report.rows;
  if (report.rows_of != RowsOf::kExits) return rows;
  const auto halts =
      std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row.halts; });
  const auto exits = halts - rows.begin();
  std::vector<GroupRow> sums;
  if (report.left_out.total.count() != 0) {
    sums.push_back(report.left_out);
    sums.back().key = fmt::format("{} more (--top)", report.rows_left_out - report.halts_left_out);
  }
  if (exits + static_cast<std::ptrdiff_t>(sums.size()) > 1) {
    sums.push_back(report.total);
    sums.back().key = halts == rows.end() ? "all exits" : "all exits but halts";
    if (!report.exits_asked.empty()) sums.back().key += " with " + report.exits_asked.text();
  }
  rows.insert(halts, sums.begin(), sums.end());
  if (report.halts_left_out != 0) {
    rows.push_back(report.left_out_halts);
    rows.back().key = fmt::format("{} more halts (--top)", report.halts_left_out);
  }
  return rows;
}

// Of the costliest rows what most of them was about, where the table has no room for it.
void print_largest(const Report& report, std::ostream& out, const TextStyle& style) {
  constexpr std::size_t kMost = 3;
  std::vector<const GroupRow*> rows;
  for (const GroupRow& row : report.rows)
    if (!row.halts && !row.largest.empty() && row.largest_ns >= row.total.total() / 10)
      rows.push_back(&row);
  std::ranges::stable_sort(rows, std::ranges::greater(), &GroupRow::cost_ns);
  std::string text;
  for (const GroupRow* row : std::span(rows).first(std::min(rows.size(), kMost))) {
    text += fmt::format("{}{}: {} ({}{})", text.empty() ? "" : "; ", row->key, row->largest,
                        row->largest_at_least ? ">= " : "",
                        percent_text(row->largest_ns, row->total.total()));
  }
  if (!text.empty()) print_wrapped("largest:", text, out, style);
}

void print_groups(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.rows.empty()) {
    if (report.lacks_entries && report.rows_of == RowsOf::kExits) return;
    const bool requests = report.rows_of == RowsOf::kRequests;
    out << fmt::format("\nno {}{}\n", name_of(report.rows_of),
                       report.is_window ? ": none both began and ended in this part"
                       : requests       ? "; record QEMU's events: --qemu-events 'virtio_blk_*'"
                                        : "");
    return;
  }
  const std::vector<GroupRow> rows = shown_rows(report);
  Table table = group_table(rows, report);
  if (report.rows_of != RowsOf::kExits) table.left_out = report.rows_left_out;
  const std::vector<std::string> no_room = print_table(table, report.by, report.cycles, out, style);
  if (std::ranges::find(no_room, "largest_ns") != no_room.end()) print_largest(report, out, style);
  const bool none = report.by == "kernel-function" && rows.size() == 1;
  if (std::ranges::find(rows, "-", &GroupRow::key) != rows.end())
    out << fmt::format("-: {} without a {}{}\n", name_of(report.rows_of), report.by,
                       none ? "; record --kernel-functions" : "");
}

// What comes before and after requests, and the kernel's threads that serve them.
void print_requests(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.rows_of == RowsOf::kRequests && !report.rows.empty()) {
    const Table table = request_path_table(report);
    print_table(table, "From notify to interrupt", report.cycles, out, style);
    print_table(table, "From request to disk", report.cycles, out, style, 1);
  }
  std::uint64_t irqfd = 0, posted = 0;
  // A request of a disk is part of its queue's: the largest row has all of them.
  for (const RequestPathRow& row : report.request_paths) {
    irqfd = std::max(irqfd, row.irqfd);
    posted = std::max(posted, row.posted);
  }
  if (irqfd != 0) {
    out << fmt::format("{} of a queue's interrupts came through an eventfd (irqfd).\n",
                       grouped(irqfd));
  }
  if (posted != 0) {
    out << fmt::format("{} of a queue's interrupts were posted: their injection is the post.\n",
                       grouped(posted));
  }
  print_table(vhost_table(report), "vhost workers", report.cycles, out, style);
}

void print_slow_exits(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.slow_exits) return;
  out << fmt::format("\nExits of {} and more: {}\n",
                     duration_text(report.slower_than_ns, report.cycles),
                     grouped(report.slow_exits->size() + report.slow_left_out));
  if (report.slow_left_out != 0) {
    const bool of_top = report.slow_exits->size() < SlowExits::kMost;
    out << fmt::format("the {} slowest of them; raise {} to see them all\n",
                       grouped(report.slow_exits->size()), of_top ? "--top" : "--slower-than");
  }
  const auto titles = part_titles(report.known_states());
  std::uint64_t longest = 0;
  for (const ExitRow& row : *report.slow_exits) longest = std::max(longest, row.span.total());
  for (const ExitRow& row : *report.slow_exits) {
    std::string text = fmt::format(" {}  {}  {}", row.vcpu,
                                   duration_text(row.span.total(), report.cycles), row.reason);
    if (row.detail != "-") text += ", " + row.detail;
    if (row.device != "-") text += ", " + row.device;
    if (row.function == kHiddenFunction) {
      text += ", rip " + row.function;
    } else if (row.function != "-") {
      text += ", in " + row.function;
    }
    const bool is_longest = row.span.total() == longest;
    print_wrapped(time_text(row.span.start.ns(), report.cycles), text, out, style,
                  {.label = is_longest ? kAlarm : kBold, .figures = true});
    std::string parts;
    for (std::size_t i = 0; i < kParts; ++i) {
      if (row.span.parts[i] == 0) continue;
      parts += fmt::format("{}{} {}", parts.empty() ? "" : "  ", titles[i],
                           duration_text(row.span.parts[i], report.cycles));
    }
    if (row.preempted_by != "-")
      parts += (parts.empty() ? "preempted by " : "  preempted by ") + row.preempted_by;
    print_wrapped("   ", parts, out, style);
  }
}

void print_irqs(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.irqs) return;
  if (report.irqs->empty()) {
    out << '\n';
    if (report.irq_events.empty()) {
      using enum IrqStep;
      std::vector<std::string_view> names;
      for (const IrqStep step : {kLine, kMsi, kAccept, kPic, kInject, kEoi, kPicEnd})
        names.push_back(events::of(step).name);
      print_wrapped(fmt::format("No interrupts were recorded ({}).", fmt::join(names, ", ")), out,
                    style);
    } else {
      print_wrapped(
          fmt::format("No interrupt was followed to the guest. Recorded: {}.", report.irq_events),
          out, style);
    }
    return;
  }
  print_table(irq_table(report), "Interrupts", report.cycles, out, style);
  print_wrapped(report.irq_stages, out, style);
  if (report.irqs_coalesced != 0) {
    out << fmt::format("{} interrupt{} raised again while {} pending.\n",
                       grouped(report.irqs_coalesced),
                       report.irqs_coalesced == 1 ? " was" : "s were",
                       report.irqs_coalesced == 1 ? "it was" : "they were");
  }
}

void print_guest_functions(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.guest_functions) return;
  // Of calls by function the rows are the same.
  if (report.rows_of == RowsOf::kCalls && report.by == "function") return;
  if (report.rows_of != RowsOf::kCalls && report.counters.guest_records == 0) {
    out << "\nNo guest functions were recorded (docs/plugin.md).\n";
    return;
  }
  print_table(guest_function_table(report), "own time of", report.cycles, out, style);
}

// A line that is too long for the terminal is two, in which a shell reads the same command.
void print_next(const std::vector<NextStep>& steps, std::ostream& out, const TextStyle& style) {
  constexpr std::string_view kLabel = "next: ";
  std::string lead = '\n' + std::string(kLabel);
  for (const NextStep& step : steps) {
    const std::string command = "trapline " + step.command, answers = "# " + step.answers;
    const std::string indent(kLabel.size(), ' ');
    const std::size_t room = style.width - kLabel.size();
    out << std::exchange(lead, indent) << command;
    const bool fits = text_width(command) + 2 + text_width(answers) <= room;
    out << (fits ? "  " : '\n' + indent) << answers << '\n';
  }
}

}  // namespace

void print_counters(std::span<const CounterRow> rows, std::ostream& out, const TextStyle& style) {
  std::string_view heading = "\nCounters\n";
  for (const CounterRow& row : rows) {
    if (row.sentence.empty() || *row.count <= row.expected) continue;
    out << std::exchange(heading, "");
    print_wrapped(fmt::format("  {:>12} ", grouped(*row.count)), std::string(row.sentence), out,
                  style);
  }
}

void print_text(const Report& report, const RecordingWords& words, std::ostream& out,
                const TextStyle& style) {
  print_head(report, out, style);
  print_vcpus(report, out, style);
  print_groups(report, out, style);
  print_requests(report, out, style);
  if (report.by.find("qemu-event") != std::string::npos)
    print_table(vmm_event_table(report), "QEMU's events", report.cycles, out, style);
  print_slow_exits(report, out, style);
  print_irqs(report, out, style);
  if (report.halts) print_table(halt_table(report), "Halts", report.cycles, out, style);
  if (report.halt_costs) print_halt_costs(report, *report.halt_costs, out, style);
  if (report.phases) print_phases(report, *report.phases, out, style);
  print_kernel(report, out, style);
  print_waits(report, out, style);
  print_guest_functions(report, out, style);
  print_counters(counter_rows(report), out, style);
  if (!report.notes.empty()) out << '\n';
  for (const std::string& note : report.notes)
    print_wrapped("note:", note, out, style, {.label = kBold});
  // What came through the standard input is gone for another command.
  if (std::ranges::find(report.sources, kStandardInput, &SourceRow::path) == report.sources.end())
    print_next(next_steps(report, words), out, style);
}

}  // namespace trapline
