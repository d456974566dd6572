#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/render/calls.h"
#include "merge/render/percentiles.h"
#include "merge/render/render.h"
#include "merge/render/request_way.h"
#include "merge/render/side_tables.h"
#include "merge/render/units.h"
#include "merge/render/waits.h"

namespace trapline {
namespace {

std::uint64_t interval_of(const Report& report) { return report.end_ns - report.start_ns; }

// Breaks the text at blanks; further lines begin under its first word.
void print_wrapped(std::string_view label, const std::string& text, std::ostream& out,
                   const TextStyle& style) {
  std::string line(label);
  std::size_t start = 0;
  while (start < text.size()) {
    const auto blank = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, blank - start);
    if (text_width(line) + 1 + text_width(word) > style.width) {
      out << line << '\n';
      line.assign(label.size(), ' ');
    }
    line += ' ' + word;
    start = blank + 1;
  }
  out << line << '\n';
}

void print_head(const Report& report, std::ostream& out, const TextStyle& style) {
  for (const SourceRow& source : report.sources) {
    out << fmt::format("{}: {} events, clock {}", printable(source.path), grouped(source.events),
                       printable(source.clock));
    out << '\n';
    const bool same_clock = source.method == "same clock";
    if (same_clock && !source.one_boot_error_ns) continue;
    std::string text = source.method;
    if (source.one_boot_error_ns) text += ", one boot assumed";
    if (!same_clock) text += fmt::format("; offset {} ns", source.offset_ns);
    text += source.error_ns ? fmt::format(" ± {} ns", *source.error_ns)
                            : std::string(same_clock ? "; error not known" : ", error not known");
    if (source.one_boot_error_ns.value_or(0) != 0)
      text += fmt::format(" (± {} ns if it is one boot)", *source.one_boot_error_ns);
    if (source.rate_change_ppm)
      text += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                          *source.rate_change_ppm);
    print_wrapped("  clock:", text, out, style);
  }
  const bool calls = report.rows_of == RowsOf::kCalls;
  out << fmt::format("{} {} in {}\n",
                     grouped(calls ? report.counters.calls.calls : report.counters.exits.exits),
                     calls ? "calls of guest functions" : "exits",
                     duration_text(interval_of(report), report.cycles));
}

// What the exits cost: two shares, and what they are shares of.
void print_overhead(const Report& report, std::ostream& out) {
  if (!report.overhead || report.overhead->busy_ns() == 0) return;
  const Overhead& overhead = *report.overhead;
  const std::uint64_t busy = overhead.busy_ns();
  out << fmt::format(
      "Of {} of busy time: guest {}, exits {}, waiting for a CPU {}.\n",
      duration_text(busy, report.cycles), percent_text(overhead.guest_ns, busy),
      percent_text(overhead.exit_ns, busy),
      report.knows(State::kPreempted) ? percent_text(overhead.not_run_ns, busy) : "-");
}

// Those that every vCPU has a column for, and those that some vCPU was in.
std::vector<State> shown_states(const Report& report) {
  std::vector<State> states = {State::kGuest};
  for (std::size_t part = 0; part < kParts; ++part) states.push_back(static_cast<State>(part));
  for (const State state : {State::kPaused, State::kOffline, State::kNotSeen}) {
    const bool some = std::any_of(report.vcpus.begin(), report.vcpus.end(),
                                  [&](VcpuRow row) { return row.totals.of(state) != 0; });
    if (some) states.push_back(state);
  }
  return states;
}

void print_vcpus(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.vcpus.empty()) return;
  if (report.rows_of == RowsOf::kCalls) return print_call_vcpus(report, out, style);
  const bool with_vm = shows_vms(report);
  const std::vector<State> states = shown_states(report);
  const States known = report.known_states();
  std::vector<std::string> head = {"Share of the vCPU's time", "exits", "time"};
  for (const State state : states) head.emplace_back(kStateNames[static_cast<std::size_t>(state)]);
  TextTable table(std::move(head));
  for (const VcpuRow& row : shown_vcpus(report)) {
    VcpuTotals totals = row.totals;
    const std::uint64_t time = totals.time_ns();
    std::vector<std::string> cells = {vcpu_name(row, with_vm), grouped(totals.exits),
                                      duration_text(time, report.cycles)};
    for (const State state : states) {
      cells.push_back(percent_text(told(known, state, totals.of(state)), time));
    }
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
  print_more_vcpus(report, out);
  print_overhead(report, out);
}

template <typename Get>
Unit unit_for(const std::vector<GroupRow>& rows, bool cycles, Get get) {
  std::vector<std::uint64_t> values;
  for (const GroupRow& row : rows) values.push_back(get(row));
  return choose_unit(values, cycles);
}

void print_latency(const Report& report, std::ostream& out, const TextStyle& style) {
  const bool cycles = report.cycles;
  const Unit total = unit_for(report.rows, cycles, [](const auto& r) { return r.total.total(); });
  const Unit middle = unit_for(report.rows, cycles,
                               [](const auto& r) { return r.total.percentile(500).value_or(0); });
  const Unit tail = unit_for(report.rows, cycles, [](const auto& r) { return r.total.max(); });
  TextTable table({report.by, std::string(name_of(report.rows_of)),
                   fmt::format("total/{}", total.name), "of time",
                   fmt::format("p50/{}", middle.name), fmt::format("p90/{}", middle.name),
                   fmt::format("p99/{}", tail.name), fmt::format("max/{}", tail.name)});
  const std::uint64_t vcpu_time = report.vcpu_time();
  for (const GroupRow& row : report.rows) {
    if (!report.durations()) {
      table.add({row.key, grouped(row.total.count()), "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.add(
        {row.key, grouped(row.total.count()), in_unit(row.total.total(), total),
         report.rows_of == RowsOf::kRequests ? "-"
         : row.halts                         ? "halt"
                                             : percent_text(row.total.total(), vcpu_time),
         in_unit(row.total.percentile(500), middle), in_unit(row.total.percentile(900), middle),
         in_unit(row.total.percentile(990), tail), in_unit(row.total.max(), tail)},
        row.halts);
  }
  out << '\n';
  table.print(out, style);
}

// The parts' shares, "-" of those that the events do not tell.
void add_parts(std::vector<std::string>& cells, const Parts& parts, std::uint64_t whole,
               const States& known) {
  for (std::size_t i = 0; i < kParts; ++i)
    cells.push_back(percent_text(told(known, i, parts), whole));
}

void print_parts(const Report& report, std::ostream& out, const TextStyle& style) {
  TextTable table(
      {"Where their time went", "kernel", "user (QEMU)", "preempted", "blocked", "halted"});
  const States known = report.known_states();
  for (const GroupRow& row : report.rows) {
    std::vector<std::string> cells = {row.key};
    add_parts(cells, row.parts, row.total.total(), known);
    table.add(std::move(cells), row.halts);
  }
  out << '\n';
  table.print(out, style);
}

void print_groups(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.rows.empty()) {
    out << fmt::format("\nno {}\n", name_of(report.rows_of));
    return;
  }
  print_latency(report, out, style);
  print_left_out(report.rows_left_out, out);
  if (report.rows_of == RowsOf::kCalls) return print_call_parts(report, out, style);
  if (!report.model.durations() || report.rows_of == RowsOf::kRequests) return;
  print_parts(report, out, style);
}

void print_request_paths(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.rows_of != RowsOf::kRequests || report.rows.empty()) return;
  const Unit unit = unit_of_medians(
      report.request_paths,
      {&RequestPathRow::from_notify, &RequestPathRow::to_injection, &RequestPathRow::whole},
      report.cycles);
  TextTable table({fmt::format("From notify to interrupt/{}", unit.name), "notified",
                   "to start p50", "p99", "injected", "from end p50", "p99", "both", "in all p50",
                   "p99"});
  for (const RequestPathRow& row : report.request_paths) {
    std::vector<std::string> cells = {row.key};
    for (const Histogram* histogram : {&row.from_notify, &row.to_injection, &row.whole}) {
      cells.push_back(grouped(histogram->count()));
      add_percentiles(cells, *histogram, unit);
    }
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
}

void print_slow_exits(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.slow_exits) return;
  out << fmt::format("\nExits of {} and more: {}\n",
                     duration_text(report.slower_than_ns, report.cycles),
                     grouped(report.slow_exits->size() + report.slow_left_out));
  if (report.slow_left_out != 0) {
    out << fmt::format("the {} slowest of them; raise --slower-than to see them all\n",
                       grouped(report.slow_exits->size()));
  }
  for (const ExitRow& row : *report.slow_exits) {
    out << fmt::format("{}{}{}  {}  {}  {}", style.colours ? "\x1b[1m" : "",
                       time_text(row.span.start.ns(), report.cycles),
                       style.colours ? "\x1b[0m" : "", row.vcpu,
                       duration_text(row.span.total(), report.cycles), row.reason);
    if (row.detail != "-") out << ", " << row.detail;
    if (row.device != "-") out << ", " << row.device;
    if (row.function == kHiddenFunction) {
      out << ", rip " << row.function;
    } else if (row.function != "[unknown]") {
      out << ", in " << row.function;
    }
    out << "\n    ";
    for (std::size_t i = 0; i < kParts; ++i) {
      if (row.span.parts[i] == 0) continue;
      out << fmt::format("{} {}  ", kPartNames[i], duration_text(row.span.parts[i], report.cycles));
    }
    if (row.preempted_by != "-") out << "preempted by " << row.preempted_by;
    out << '\n';
  }
}

void print_irqs(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.irqs) return;
  if (report.irqs->empty()) {
    if (report.irq_events.empty()) {
      out << "\nNo interrupts were recorded (kvm_set_irq, kvm_msi_set_irq, kvm_apic_accept_irq, "
             "kvm_pic_set_irq, kvm_inj_virq, kvm_eoi, kvm_ack_irq).\n";
    } else {
      out << fmt::format("\nNo interrupt was followed to the guest. Recorded: {}.\n",
                         report.irq_events);
    }
    return;
  }
  const Unit unit = unit_of_medians(
      *report.irqs, {&IrqRow::to_inject, &IrqRow::to_entry, &IrqRow::to_eoi}, report.cycles);
  TextTable table({fmt::format("Interrupts/{}", unit.name), "raised", "inject p50", "p99",
                   "entry p50", "p99", "eoi p50", "p99"});
  for (const IrqRow& row : *report.irqs) {
    std::vector<std::string> cells = {fmt::format("vector {} {}", row.vector, row.pin),
                                      grouped(row.raised)};
    for (const Histogram* histogram : {&row.to_inject, &row.to_entry, &row.to_eoi}) {
      add_percentiles(cells, *histogram, unit);
    }
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
  if (report.irqs_coalesced != 0) {
    out << fmt::format("{} interrupt{} raised again while {} pending.\n",
                       grouped(report.irqs_coalesced),
                       report.irqs_coalesced == 1 ? " was" : "s were",
                       report.irqs_coalesced == 1 ? "it was" : "they were");
  }
}

void print_halts(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.halts) return;
  const Unit unit = unit_of_medians(
      *report.halts, {&HaltRow::polls_won, &HaltRow::slept, &HaltRow::wake_to_run}, report.cycles);
  TextTable table({fmt::format("Halts/{}", unit.name), "polls won", "p50", "slept", "p50", "p99",
                   "wake-up p50", "p99"});
  for (const HaltRow& row : *report.halts) {
    const auto cell = [&](const Histogram& histogram, std::uint32_t per_mille) {
      return in_unit(histogram.percentile(per_mille), unit);
    };
    table.add({row.vcpu == kNoVcpu ? "vCPU ?" : fmt::format("vCPU {}", row.vcpu),
               grouped(row.polls_won.count()), cell(row.polls_won, 500), grouped(row.slept.count()),
               cell(row.slept, 500), cell(row.slept, 990), cell(row.wake_to_run, 500),
               cell(row.wake_to_run, 990)});
  }
  out << '\n';
  table.print(out, style);
}

void print_guest_functions(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.guest_functions) return;
  if (report.rows_of == RowsOf::kCalls) return print_call_functions(report, out, style);
  if (report.counters.guest_records == 0) {
    out << "\nNo guest functions were recorded (docs/plugin.md).\n";
    return;
  }
  std::vector<std::uint64_t> values;
  for (const GuestFunctionRow& row : *report.guest_functions) values.push_back(row.times.own_ns());
  const Unit unit = choose_unit(values, report.cycles);
  TextTable table({"own time of", "calls", "exits", fmt::format("own/{}", unit.name), "guest",
                   "kernel", "user", "preempted", "blocked", "halted"});
  const States known = report.known_states();
  for (const GuestFunctionRow& row : *report.guest_functions) {
    const std::uint64_t own = row.times.own_ns();
    std::vector<std::string> cells = {
        row.name, grouped(row.times.calls), grouped(row.times.exits), in_unit(own, unit),
        report.knows(State::kGuest) ? percent_text(row.times.guest_ns, own) : "-"};
    add_parts(cells, row.times.parts, own, known);
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
  print_left_out(report.guest_functions_left_out, out);
}

void print_vmm_events(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.by.find("qemu-event") == std::string::npos || report.vmm_events.empty()) return;
  TextTable table({"QEMU's events", "all", "in exits"});
  for (const VmmEventRow& row : report.vmm_events) {
    table.add({row.name, grouped(row.count.count), grouped(row.count.in_exits)});
  }
  out << '\n';
  table.print(out, style);
}

void print_counters(const Report& report, std::ostream& out) {
  const ReportCounters& counters = report.counters;
  const std::pair<std::uint64_t, std::string_view> kSentences[] = {
      {counters.lost_events, "events lost"},
      {counters.gaps, "losses of events, each on one CPU"},
      {counters.gaps_uncounted, "of them without a count"},
      {counters.left_out_events, "events left out on purpose, by --snapshot-on"},
      {counters.left_out_pieces, "pieces of time that they lay in, on one CPU each"},
      {counters.exits.closed_by_loss, "exits left out: a loss may hide their end"},
      {counters.exits.exits_stopped,
       "exits left out: their vCPU was paused or went offline in them"},
      {counters.exits.exit_without_entry, report.model.from_userspace_exit
                                              ? "exits to user space whose end was not recorded"
                                              : "kvm_exit without a kvm_entry after it"},
      {counters.exits.entry_without_exit, "kvm_entry without a kvm_exit before it"},
      {counters.exits.user_without_end, "user intervals that only kvm_entry ended"},
      {counters.exits.clock_went_back, "events stamped before their thread's last one"},
      {counters.exits.threads_left_out, "kvm events of threads beyond the most that are followed"},
      {counters.damaged_events, "events shorter than their format"},
      {counters.requests_restarted, "requests begun again before they ended"},
      {counters.requests_end_only, "ends of requests that nothing began"},
      {counters.requests_open, "requests that never ended"},
      {counters.bios_ambiguous, "bios of more than one possible request, left open"},
      {counters.notifies_ambiguous, "notifies of more than one possible exit, left open"},
      {counters.interrupts_ambiguous,
       "interrupts raised in another way than earlier ones, left open"},
      {counters.calls.without_return, "calls without their return, counted up to where they ended"},
      {counters.calls.cut_by_loss, "calls of which a part is not known: events were lost"},
      {counters.groups_folded, "exits in [other]: more groups than are kept"}};
  std::string text;
  for (const auto& [value, sentence] : kSentences) {
    if (value != 0) text += fmt::format("  {:>12}  {}\n", grouped(value), sentence);
  }
  if (!text.empty()) out << "\nCounters\n" << text;
}

}  // namespace

void print_text(const Report& report, std::ostream& out, const TextStyle& style) {
  print_head(report, out, style);
  print_vcpus(report, out, style);
  print_groups(report, out, style);
  print_request_paths(report, out, style);
  print_request_way(report, out, style);
  print_vmm_events(report, out, style);
  print_slow_exits(report, out, style);
  print_irqs(report, out, style);
  print_halts(report, out, style);
  print_side_tables(report, out, style);
  print_waits(report, out, style);
  print_steal(report, out, style);
  print_guest_functions(report, out, style);
  print_counters(report, out);
  if (!report.notes.empty()) out << '\n';
  for (const std::string& note : report.notes) print_wrapped("note:", note, out, style);
}

}  // namespace trapline
