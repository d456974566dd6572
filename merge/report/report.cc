#include "merge/report/report.h"
#include "merge/model/kernel_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/dimensions.h"
#include "merge/report/groups.h"
#include "merge/report/notes.h"
#include "merge/report/requests.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"
#include "merge/source/stream_copy.h"

namespace trapline {

namespace {

constexpr std::uint64_t kNoticed = 20;  // text mentions a time that is more than 1/kNoticed

// Adds the error of each source's alignment and, with -v, a line of the source and of its clock.
void add_sources(const ReportData& report, std::vector<Paragraph>& text) {
  for (const SourceRow& source : report.sources) {
    const std::string resolution =
        source.resolution_ns ? fmt::format(", resolution {} ns", *source.resolution_ns) : "";
    text.push_back({.text = fmt::format(
                        "{}: {} events{}, clock {}{}",
                        source.path == kStandardInput ? "standard input" : printable(source.path),
                        grouped(source.events), report.is_window ? " read" : "",
                        printable(source.clock), resolution)});
    text.back().shown = Shown::kVerbose;
    const SourceAlignment& aligned = source.aligned;
    if (aligned.is_same_clock() && !aligned.one_boot_error_ns) continue;
    std::string sentence = alignment_text(aligned);
    const bool of_guests_kernel = source.role == Role::kGuest && source.kind != "uftrace";
    if (of_guests_kernel && report.by != "guest-span")
      sentence.append(sentence.empty() ? "" : ". ")
          .append("The tables have none of its events; trapline timeline shows them");
    if (!sentence.empty())
      text.push_back({.text = std::move(sentence), .label = printable(source.path) + ":"});
    text.push_back({.text = fmt::format("{}; offset {} ns", aligned.text(), aligned.offset_ns),
                    .label = "  clock:",
                    .shown = Shown::kVerbose});
  }
}

// Says which parts of the report ignore the selection of vCPUs.
std::string of_all_vcpus(const ReportData& report) {
  std::string text;
  if (report.rows_of == RowsOf::kRequests) text += "requests, ";
  if (report.tables_asked.contains("--irq")) text += "interrupts, ";
  if (report.by.find("qemu-event") != std::string::npos) text += "QEMU's events, ";
  if (report.vcpu_filter.vcpu &&
      (!report.host_cpu.empty() || report.tables_asked.contains("--host-cpu")))
    text += "the host's CPU time, ";
  if (text.empty()) return "the counters";
  text.resize(text.size() - 2);
  return text + " and the counters";
}

// Adds sentences on what was selected, and on the figures that ignore the selection.
void add_selection(const ReportData& report, std::vector<Paragraph>& text) {
  if (!report.vcpu_filter.empty())
    text.push_back({.text = fmt::format("Only the vCPUs with {} are counted; {} are of all vCPUs.",
                                        report.vcpu_filter.text(), of_all_vcpus(report))});
  if (report.exit_filter.empty() || report.rows_of != RowsOf::kExits) return;
  const std::string taken =
      report.reasons_taken.size() < 2
          ? std::string()
          : fmt::format("; --reason takes {}", fmt::join(report.reasons_taken, ", "));
  text.push_back({.text = fmt::format(
                      "Only exits with {} are in the rows, {} of {}; {} is that of all exits{}.",
                      report.exit_filter.text(), grouped(report.exits_in_rows),
                      grouped(report.all_exits), report.vcpus_time(), taken)});
}

void add_losses(const ReportData& report, std::vector<Paragraph>& sentences) {
  const ReportCounters& counters = report.counters;
  const auto warn = [&sentences](std::string text, const char* label) {
    sentences.push_back({.text = std::move(text), .label = label, .look = LabelLook::kWarning});
  };
  if (counters.left_out_events != 0)
    warn(fmt::format("{} events in {} piece{} of the CPUs' time, which --snapshot-on did not keep",
                     grouped(counters.left_out_events), grouped(counters.left_out_pieces),
                     counters.left_out_pieces == 1 ? "" : "s"),
         "LEFT OUT:");
  for (const std::string& missing : report.missing) warn(missing, "INCOMPLETE:");
  if (counters.damaged_pages != 0)
    warn(fmt::format("{} of the recording's pages; their events are lost",
                     grouped(counters.damaged_pages)),
         "DAMAGED:");
  if (counters.unread_events != 0)
    warn(fmt::format("{} events, whose format could not be read, are not counted",
                     grouped(counters.unread_events)),
         "DAMAGED:");
  constexpr std::uint64_t kPercent = 100;
  const std::uint64_t open = report.total.open;
  if (open != 0 && report.total.unended_cost_ns > report.total.cost_ns() / kPercent)
    sentences.push_back(
        {.text = fmt::format("{} time up to the recording's end counts in share, but not in total, "
                             "mean, p99 and max",
                             open == 1 ? "1 exit has no recorded end: its"
                                       : grouped(open) + " exits have no recorded end: their")});
  if (counters.gaps == 0) return;
  std::string text = losses_text(counters);
  const std::uint64_t left_out = counters.exits.closed_by_loss;
  if (left_out != 0)
    text += fmt::format("; left out: {} exit{} whose end may be among them", grouped(left_out),
                        left_out == 1 ? "" : "s");
  if (const std::uint64_t not_seen = report.time_in(State::kNotSeen); not_seen != 0)
    text += fmt::format("; {} of {} was not seen", percent_text(not_seen, report.vcpu_time()),
                        report.vcpus_time());
  warn(std::move(text), "LOST:");
}

std::vector<Paragraph> sentences_above(const ReportData& report, const std::string& finding) {
  std::vector<Paragraph> text;
  if (!finding.empty()) text.push_back({.text = finding, .figures = true});
  if (!report.host_cpu.empty()) text.push_back({.text = report.host_cpu, .figures = true});
  for (const std::string& open : report.open) text.push_back({.text = open, .figures = true});
  add_losses(report, text);
  add_sources(report, text);
  const bool calls = report.rows_of == RowsOf::kCalls;
  std::uint64_t exits = 0;
  for (const VcpuRow& row : report.vcpus) exits += row.totals.exits;
  const std::string interval = duration_text(report.end_ns - report.start_ns, report.cycles);
  std::string count =
      fmt::format("{} {} in {}", grouped(calls ? report.counters.calls.calls : exits),
                  calls        ? "calls of guest functions"
                  : exits == 1 ? "exit"
                               : "exits",
                  interval);
  std::uint64_t before = report.end_ns - report.start_ns;
  for (const VcpuRow& row : report.vcpus)
    before = std::min(before, elapsed(Timestamp(report.start_ns), row.totals.begin));
  if (!calls && before > (report.end_ns - report.start_ns) / kNoticed)
    count += fmt::format(", first vCPU seen after {}", duration_text(before, report.cycles));
  text.push_back({.text = std::move(count), .verbatim = true});
  if (!report.not_recorded.empty()) text.push_back({.text = report.not_recorded});
  add_selection(report, text);
  return text;
}

Facts head_of(const ReportData& report, const std::string& finding) {
  Facts head = head_facts("report", report.cycles, report.start_ns, report.end_ns, report.counters);
  head.push_back({"user_end", to_value(name_of(report.model.user_end))});
  head.push_back({"from_userspace_exit", report.model.from_userspace_exit});
  add_filter(head, report.vcpu_filter, report.exit_filter);
  if (!report.exit_filter.empty()) {
    head.push_back({"all_exits.count", report.all_exits});
    head.push_back({"all_exits.cost_ns", report.all_cost_ns});
  }
  add_overhead(head, report);
  head.push_back({"finding", text_or_null(finding)});
  head.push_back({"host_cpu", text_or_null(report.host_cpu)});
  head.push_back({"open_exits", report.open});
  return head;
}

Table vmm_event_table(const ReportData& report) {
  TableOf<VmmEventRow> table({.key = "qemu_events"}, report.vmm_events, &VmmEventRow::name);
  if (report.by.find("qemu-event") != std::string::npos) table.titles = {"QEMU's events"};
  table.add({"name"}, &VmmEventRow::name);
  table.add({"count", "all"}, [](const VmmEventRow& row) { return row.count.count; });
  const bool known = report.durations();
  table.add({"in_exits", "in exits"}, [known](const VmmEventRow& row) {
    return known ? to_value(row.count.in_exits) : CellValue();
  });
  return table;
}

}  // namespace

std::vector<CounterRow> counter_rows(const ReportData& report) {
  const ReportCounters& counters = report.counters;
  const ExitCounters& exits = counters.exits;
  const std::string_view exit = events::kvm_exit.name, entry = events::kvm_entry.name;
  // At either edge of a recording, one exit of each vCPU is cut, which is no anomaly.
  const std::uint64_t edges = report.threads;
  const std::string after_loss =
      exits.entry_after_loss == 0
          ? ""
          : fmt::format(": {} of them follow time that is not seen, which may hide it",
                        exits.entry_after_loss == exits.entry_without_exit
                            ? "all"
                            : grouped(exits.entry_after_loss));
  std::vector<CounterRow> rows = {
      {"exits", exits.exits},
      {"exit_without_entry", exits.exit_without_entry,
       report.model.from_userspace_exit ? "exits to user space whose end was not recorded"
                                        : fmt::format("{} without a {} after it", exit, entry),
       edges},
      {"entry_without_exit", exits.entry_without_exit,
       fmt::format("{} without a {} before it{}", entry, exit, after_loss), edges},
      {"closed_by_loss", exits.closed_by_loss},
      {"exits_stopped", exits.exits_stopped,
       "exits cut: their vCPU was paused, offline or not seen in them", edges},
      {"lost_events", counters.lost_events},
      {"gaps", counters.gaps},
      {"gaps_uncounted", counters.gaps_uncounted},
      {"left_out_events", counters.left_out_events},
      {"left_out_pieces", counters.left_out_pieces},
      {"qemu_events", exits.vmm_events},
      {"qemu_events_in_exits",
       report.durations() ? std::optional(exits.vmm_events_in_exits) : std::nullopt},
      {"guest_records", counters.guest_records},
      {"user_without_end", exits.user_without_end,
       fmt::format("user intervals that only {} ended", entry)},
      {"clock_went_back", exits.clock_went_back, "events stamped before their thread's last one"},
      {"threads_left_out", exits.threads_left_out,
       "kvm events of threads beyond the most that are followed"},
      {"damaged_events", counters.damaged_events, "events shorter than their format"},
      {"requests_restarted", counters.requests_restarted, "requests begun again before they ended"},
      {"requests_end_only", counters.requests_end_only, "ends of requests that nothing began"},
      {"requests_open", counters.requests_open, "requests that never ended"},
      {"notifies_ambiguous", counters.notifies_ambiguous,
       "notifies of more than one possible exit, left open"},
      {"interrupts_ambiguous", counters.interrupts_ambiguous,
       "interrupts raised in another way than earlier ones, left open"},
      {"calls", counters.calls.calls},
      {"calls_without_return", counters.calls.without_return,
       "calls without their return, counted up to where they ended"},
      {"calls_cut_by_loss", counters.calls.cut_by_loss,
       "calls of which a part is not known: events were lost"},
      {"groups_folded", counters.groups_folded, "exits in [other]: more groups than are kept"}};
  if (exits.entry_after_loss != 0) rows.push_back({"entry_after_loss", exits.entry_after_loss});
  if (counters.damaged_pages != 0) rows.push_back({"damaged_pages", counters.damaged_pages});
  if (counters.unread_events != 0) rows.push_back({"unread_events", counters.unread_events});
  if (counters.bios_ambiguous != 0)
    rows.push_back({"bios_ambiguous", counters.bios_ambiguous,
                    "bios of more than one possible request, left open"});
  return rows;
}

void add_filter(Facts& head, const VcpuFilter& vcpus, const ExitFilter& exits) {
  if (!vcpus.vm.empty()) head.push_back({"filter.vm", printable(vcpus.vm)});
  if (vcpus.vcpu) head.push_back({"filter.vcpu", to_value(*vcpus.vcpu)});
  for (const auto& [option, pattern] : exits.options())
    head.push_back({"filter." + std::string(option.substr(2)), printable(pattern)});
}

Report make_report(const ReportData& data, const RecordingWords& words) {
  const std::string finding = finding_text(data);
  Report report;
  report.cycles = data.cycles;
  report.head = head_of(data, finding);
  report.before = sentences_above(data, finding);
  report.tables = {source_table(data.sources), vcpu_table(data), group_table(data)};
  if (data.rows_of == RowsOf::kRequests) report.tables.push_back(request_path_table(data));
  if (!data.vhost.empty()) report.tables.push_back(vhost_table(data));
  report.tables.push_back(vmm_event_table(data));
  report.tables.insert(report.tables.end(), data.tables.begin(), data.tables.end());
  report.tables.push_back(counter_table(counter_rows(data)));
  report.notes = data.notes;
  report.after.emplace_back();
  for (const std::string& note : data.notes)
    if (std::ranges::find(data.missing, note) == data.missing.end())
      report.after.push_back(note_paragraph(note));
  if (report.after.size() == 1) report.after.clear();
  // Suggests no command for the standard input, which no other command can read again.
  if (std::ranges::find(data.sources, kStandardInput, &SourceRow::path) == data.sources.end())
    report.next = next_steps(data, words);
  return report;
}

namespace {

// Returns "the vCPU's 1.2 s".
std::string whole_text(const ReportData& report) {
  return fmt::format("{}{} {}", report.the_vcpus(), report.vcpus.size() == 1 ? "'s" : "'",
                     duration_text(report.vcpu_time(), report.cycles));
}

// Returns whether a key is a name; those like "-" and "[other]" are not.
bool is_named(std::string_view key) { return !key.empty() && key.find_first_of("-[") != 0; }

// Returns the finding of a report of calls: a recording of emulation has no exits.
std::string finding_of_calls(const ReportData& report) {
  const std::uint64_t whole = report.vcpu_time();
  if (whole == 0 || report.rows.empty()) return {};
  std::string text = fmt::format("Of {} recorded guest functions had {}", whole_text(report),
                                 percent_text(whole - report.time_in(State::kNotSeen), whole));
  const GroupRow& most = report.rows.front();
  if (is_named(most.key) && !most.key.ends_with(" / -"))
    text += fmt::format(" ({}: {})", percent_text(most.total.total(), whole), most.key);
  text +=
      fmt::format("; in them the guest ran {}", percent_text(report.time_in(State::kGuest), whole));
  if (report.knows(State::kUser)) {
    std::uint64_t at_most = report.left_out.devices_at_most_ns;
    for (const GroupRow& row : report.rows) at_most += row.devices_at_most_ns;
    const std::uint64_t least = report.time_in(State::kUser);
    text += fmt::format(", QEMU's devices {} to {}", percent_text(least, whole),
                        percent_text(least + at_most, whole));
  }
  if (report.knows(State::kPreempted))
    text += fmt::format(
        ", and for {} it waited, for a CPU or for something else",
        percent_text(report.time_in(State::kPreempted) + report.time_in(State::kBlocked), whole));
  return text +
         fmt::format(". What leaving the guest cost was not recorded ({}; emulation has none).",
                     events::kvm_exit.full_name);
}

std::string finding_without_overhead(const ReportData& report) {
  if (report.rows_of == RowsOf::kCalls) return finding_of_calls(report);
  if (report.rows_of != RowsOf::kExits) return {};
  if (!report.durations()) {
    if (report.rows.empty()) return {};
    const GroupRow& most = *std::ranges::max_element(report.rows, {}, &GroupRow::count);
    std::uint64_t all = report.left_out.count() + report.left_out_halts.count();
    for (const GroupRow& row : report.rows) all += row.count();
    const bool to_user = report.model.from_userspace_exit;
    std::string text = fmt::format("How long the exits took was not recorded ({})",
                                   report.lacks_times() ? "the text has no times"
                                   : to_user            ? events::kvm_exit.full_name
                                                        : events::kvm_entry.full_name);
    if (report.exit_filter.empty() && is_named(most.key) && !most.key.ends_with(" / -"))
      text += fmt::format("; {} of {} were {}", percent_text(most.count(), all),
                          to_user ? fmt::format("those to {}", report.vmm) : "them", most.key);
    return text + '.';
  }
  const std::uint64_t whole = report.vcpu_time();
  if (whole == 0 || !report.model.from_userspace_exit) return {};
  std::string text =
      fmt::format("Of {} exits{} at least {}", whole_text(report),
                  report.knows(State::kPreempted) ? " cost" : ", with waits for a CPU, took",
                  percent_text(report.whole_cost_ns(), whole));
  if (report.exit_filter.empty() && is_named(report.costliest))
    text += fmt::format(" ({} alone: {})", shown_key(report.costliest, report.by),
                        percent_text(report.costliest_ns, whole));
  return text + fmt::format(", in {}; what KVM and the guest took was not recorded ({}).",
                            report.vmm, events::kvm_exit.full_name);
}

// Returns the costliest row's share of the busy time; "at least" if exits that a loss cut cost time
// too: they are in no row, and some may be this row's.
std::string costliest_text(const ReportData& report) {
  constexpr std::uint64_t kPercent = 100;
  const std::uint64_t exit_ns = report.overhead->exit_ns, busy = report.overhead->busy_ns();
  const std::string_view least =
      (report.exit_filter.empty() ? report.cost_ns : report.all_cost_ns) <
              exit_ns - exit_ns / kPercent
          ? "at least "
          : std::string_view();
  if (!report.exit_filter.empty()) {
    return fmt::format(" (those with {} alone: {}{})", report.exit_filter.text(), least,
                       percent_text(report.cost_ns, busy));
  }
  // Rows by a wait or by a kernel function are not kinds of exits. Nor are rows of --by nested: the
  // exits of a nested guest would read as its own time.
  for (const std::string_view no_exit : {"-by", "-on", "kernel-function", "nested"})
    if (report.by.find(no_exit) != report.by.npos) return {};
  if (!is_named(report.costliest)) return {};
  // The exits in no row cost more than this row: another row may be the costliest.
  if (exit_ns > report.cost_ns && exit_ns - report.cost_ns > report.costliest_ns) return {};
  return fmt::format(" ({} alone: {}{})", shown_key(report.costliest, report.by), least,
                     percent_text(report.costliest_ns, busy));
}

// Returns which thread ran longest in `not_run_ns`, the vCPUs' wait for a CPU. Empty if waits were
// not followed, or if a loss or an assumption may hide a larger share of another thread.
std::string ran_instead_text(const ReportData& report, std::uint64_t not_run_ns) {
  if (!report.waits || report.waits->ran_most.empty()) return {};
  const ReportCounters& counters = report.counters;
  if (counters.gaps != 0 || counters.left_out_pieces != 0) return {};
  const WaitCounters waits = report.wait_counters.value_or(WaitCounters());
  if (waits.cut_by_loss != 0 || waits.cpu_assumed != 0) return {};
  const std::uint64_t told_ns = report.waits->preempted.total_ns, ns = report.waits->ran_most_ns;
  if (told_ns > not_run_ns || ns < report.waits->others_at_most_ns + (not_run_ns - told_ns))
    return {};
  return fmt::format(" (for {} {} ran instead)", percent_text(ns, report.overhead->busy_ns()),
                     report.waits->ran_most);
}

}  // namespace

std::string alignment_text(const SourceAlignment& aligned) {
  const auto error = aligned.error_ns ? aligned.error_ns : aligned.one_boot_error_ns;
  if (aligned.error_ns == 0 && !aligned.rate_change_ppm) return {};
  std::string sentence = error ? fmt::format("aligned to ± {}", duration_text(*error, false))
                               : "aligned by an offset that was given: error not known";
  if (!aligned.error_ns && error) sentence += ", if both are of one boot (assumed)";
  if (aligned.rate_change_ppm)
    sentence += *aligned.rate_change_ppm == 0
                    ? ", if both clocks run at one rate (1 ppm between them adds 1 µs a second: "
                      "trapline help clocks)"
                    : fmt::format(", if the clocks' rates change by at most {:.3g} ppm (assumed)",
                                  *aligned.rate_change_ppm);
  return sentence;
}

std::string finding_text(const ReportData& report) {
  if (!report.overhead) return finding_without_overhead(report);
  if (report.overhead->busy_ns() == 0) return {};
  const Overhead& overhead = *report.overhead;
  const std::uint64_t busy = overhead.busy_ns();
  const auto time = [&report](std::uint64_t ns) { return duration_text(ns, report.cycles); };
  const bool one = report.vcpus.size() == 1;
  const std::string_view vcpus = one ? "The vCPU was" : "The vCPUs were";
  const std::string_view the_vcpus = report.the_vcpus();
  const std::uint64_t halted = report.time_in(State::kHalted);
  std::string text = fmt::format("{} busy for {}{}", vcpus, time(busy),
                                 overhead.not_run_ns == 0 ? "" : " (waits for a CPU included)");
  const std::uint64_t paused = report.time_in(State::kPaused);
  if (halted != 0) text += (paused != 0 ? ", halted for " : " and halted for ") + time(halted);
  if (paused != 0) text += " and paused for " + time(paused);
  const std::string_view least = report.costs_at_least ? "at least " : "";
  const bool has_handlers = report.isa == kIsaArm64 || report.isa == kIsaRiscv;
  text += fmt::format(". Of the busy time{} the guest ran {}{}; {}{}",
                      report.time_in(State::kNotSeen) == 0 ? "" : " that was seen",
                      percent_text(overhead.guest_ns, busy),
                      has_handlers ? " (the host's interrupt handlers included)" : "",
                      exits_cost(report.model, overhead, report.costs_at_least),
                      percent_text(overhead.exit_ns, busy));
  text += costliest_text(report);
  if (!report.knows(State::kUser))
    text += fmt::format("; how much of it {} took was not recorded ({})", report.vmm,
                        events::kvm_userspace_exit.full_name);
  if (!report.knows(State::kPreempted)) {
    text += fmt::format("; whether {} had to wait for a CPU was not recorded ({}).", the_vcpus,
                        events::sched_switch.full_name);
  } else if (overhead.not_run_ns == 0 && !report.model.wakeups &&
             (overhead.blocked_ns != 0 || halted != 0)) {
    text += fmt::format("; whether {} had to wait for a CPU after a sleep was not recorded ({}).",
                        the_vcpus, events::sched_waking.full_name);
  } else if (overhead.not_run_ns == 0) {
    const bool seen = report.counters.gaps == 0 && report.time_in(State::kNotSeen) == 0;
    text += fmt::format("; {}{} never had to wait for a CPU{}.",
                        seen ? "" : "in the time that was seen ", the_vcpus,
                        report.waits_in_halts ? " but in halts" : "");
  } else {
    text +=
        fmt::format("; for {}{} {} waited for a CPU{}.", report.model.wakeups ? least : "at least ",
                    percent_text(overhead.not_run_ns, busy), the_vcpus,
                    ran_instead_text(report, overhead.not_run_ns));
  }
  return text;
}

namespace {

// The report's option that shows more about a part of the exits' time, and what it shows; no option
// if the recording does not contain more.
struct Question {
  std::string_view option, answers;
};
Question question_of(Part part, const ReportData& report) {
  const auto has = [&report](std::string_view dimension) {
    return report.by.find(dimension) != std::string::npos;
  };
  const auto is_of_faults = [](const GroupRow& row) {
    return row.key.find(ReportData::kFaultKey) != std::string::npos || row.key == "npf" ||
           (row.key == "EPT_VIOLATION" && !row.largest.starts_with("mmio")) ||
           row.largest.starts_with("page-fault");
  };
  if (part != Part::kHalted && part != Part::kPreempted && !report.rows.empty() &&
      is_of_faults(report.rows.front()) && !report.tables_asked.contains("--faults"))
    return {"--faults", "why the pages were not mapped"};
  for (const TableKind& kind : table_kinds()) {
    if (kind.answers.empty() || kind.of != part) continue;
    if (report.tables_asked.contains(kind.option)) return {};
    return {kind.option, kind.answers};
  }
  constexpr std::uint64_t kMuch = 4;  // a quarter of the cost is worth a look at the devices
  const std::uint64_t user = report.total.parts[static_cast<std::size_t>(Part::kUser)];
  if (!has("device") &&
      (part == Part::kUser || (user > report.total.cost_ns() / kMuch && !lacks_regions(report))))
    return {"--by device", "which of QEMU's devices took the time"};
  const bool details =
      std::ranges::any_of(report.rows, [](const GroupRow& row) { return !row.largest.empty(); });
  if (has("detail") || !details) return {};
  return {"--by detail --top 20", "which ports, registers and addresses took the time"};
}

// Returns the command to record again, if this recording cannot separate kernel, QEMU and waiting.
NextStep step_to_record(const ReportData& report) {
  if (report.knows(State::kUser) && report.durations()) {
    if (report.model.wakeups || !report.model.sched_switch) return {};
    if (report.isa == kIsaArm64)
      return {"record --sched --irq", "tells waits from sleeps; times interrupt handlers"};
    return {"record --sched", "tells a wait for a CPU from a sleep"};
  }
  if (report.durations() && report.knows(State::kPreempted))
    return {"record --sched",
            fmt::format("tells kernel from QEMU{}",
                        report.model.wakeups ? "" : ", and a wait for a CPU from a sleep")};
  return {"record --sched", report.durations() ? "tells kernel, QEMU and waiting apart"
                                               : "a recording that has the exits' durations"};
}

// Returns whether a change may gain something: at least a twentieth of the busy time went to exits
// or to waits for a CPU.
bool can_be_advised(const ReportData& report) {
  if (!report.overhead || !report.exit_filter.empty() || report.cycles) return false;
  const Overhead& overhead = *report.overhead;
  return std::max(overhead.exit_ns, overhead.not_run_ns) > overhead.busy_ns() / 20;
}

constexpr std::uint64_t kAround = 1'000'000;

std::vector<NextStep> steps_of_calls(const ReportData& report, const RecordingWords& words) {
  std::vector<NextStep> steps;
  if (report.by.find("stack") == std::string::npos)
    steps.push_back(
        {fmt::format("report {}{} --by stack --top 20", words.recording, words.interval),
         "from where the functions are called"});
  if (report.cycles) return steps;
  const GroupRow& row = report.rows.front();
  steps.push_back(
      {fmt::format("timeline {} --from {} --to {}", words.recording, seconds_text(row.max_at_ns),
                   seconds_text(row.max_at_ns + kAround)),
       fmt::format("the longest call of {}, and what follows", shown_key(row.key, report.by))});
  return steps;
}

}  // namespace

std::vector<NextStep> next_steps(const ReportData& report, const RecordingWords& words) {
  if (report.rows_of == RowsOf::kCalls && !report.rows.empty())
    return steps_of_calls(report, words);
  if (report.rows_of == RowsOf::kExits && report.rows.empty() && report.is_window &&
      !report.cycles) {
    return {{fmt::format("explain {} --around {}", words.recording, seconds_text(report.start_ns)),
             "the exit that lies over this part, or the next one"}};
  }
  if (report.rows_of != RowsOf::kExits || report.rows.empty()) return {};
  const NextStep record = step_to_record(report);
  if (report.total.total.total() == 0)
    return record.command.empty() ? std::vector<NextStep>() : std::vector{record};
  const Parts& parts = report.total.parts;
  const auto most = static_cast<Part>(std::ranges::max_element(parts) - parts.begin());
  std::vector<NextStep> steps;
  const std::string around =
      words.interval.empty() ? "" : " --around " + seconds_text(report.total.max_at_ns);
  // If the vCPUs are idle most of the time, suggests the table of halts: their exits cost little.
  const std::uint64_t time = report.vcpu_time();
  const bool idle = report.knows(State::kPreempted) && report.time_in(State::kHalted) > time / 2;
  const auto ask = [&](const Question& question) {
    if (!question.option.empty())
      steps.push_back(
          {fmt::format("report {}{} {}", words.recording, words.interval, question.option),
           std::string(question.answers)});
  };
  if (idle) ask(question_of(Part::kHalted, report));
  if (most == Part::kUser && report.vmm_events.empty())
    steps.push_back({"help devices", "how to record which of QEMU's devices took the time"});
  else if (!idle || can_be_advised(report))
    ask(question_of(most, report));
  if (most != Part::kPreempted && report.overhead &&
      report.overhead->not_run_ns > report.overhead->busy_ns() / kNoticed)
    ask(question_of(Part::kPreempted, report));
  if (report.cycles && !around.empty()) return steps;
  steps.push_back(
      {fmt::format("explain {}{}", words.recording, around), "why the longest exit took so long"});
  if (const HostRuns::Handler& handler = report.longest_handler;
      handler.ns != 0 && !report.cycles && report.exit_filter.empty())
    steps.push_back(
        {fmt::format("timeline {} --around {}", words.recording, seconds_text(handler.begin.ns())),
         fmt::format("the host's longest interrupt handler, {} (irq {})",
                     duration_text(handler.ns, false), handler.line)});
  if (!std::ranges::all_of(report.sources, [](auto& one) { return one.aligned.is_same_clock(); }))
    steps.push_back({fmt::format("timeline {} --around max", words.recording),
                     "host, QEMU and guest on one timeline"});
  if (can_be_advised(report)) {
    steps.push_back({fmt::format("advise {}{}", words.recording, words.interval),
                     "what to change, and what that saves"});
  } else if (steps.size() == 1 && record.command.empty()) {
    steps.push_back(
        {fmt::format("timeline {}{}", words.recording, around.empty() ? " --around max" : around),
         "the events around it"});
  }
  if (report.counters.gaps != 0 && report.time_in(State::kNotSeen) > time / kNoticed)
    steps.push_back(
        {"record --buffer-size 32M", "what to add: a larger buffer loses fewer events"});
  else if (!record.command.empty())
    steps.push_back(record);
  return steps;
}

}  // namespace trapline
