#include "merge/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/groups.h"
#include "merge/report/notes.h"
#include "merge/report/requests.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"
#include "merge/source/stream_copy.h"

namespace trapline {
namespace {

// A line of each source, and how its clock became the timeline's.
void add_sources(const ReportData& report, std::vector<Paragraph>& text) {
  for (const SourceRow& source : report.sources) {
    const std::string resolution =
        source.resolution_ns ? fmt::format(", resolution {} ns", *source.resolution_ns) : "";
    text.push_back({.text = fmt::format(
                        "{}: {} events{}, clock {}{}",
                        source.path == kStandardInput ? "standard input" : printable(source.path),
                        grouped(source.events), report.is_window ? " read" : "",
                        printable(source.clock), resolution)});
    const SourceAlignment& aligned = source.aligned;
    const bool same_clock = aligned.is_same_clock();
    if (same_clock && !aligned.one_boot_error_ns) continue;
    std::string clock = aligned.text();
    if (!same_clock) clock += fmt::format("; offset {} ns", aligned.offset_ns);
    clock += aligned.error_ns ? fmt::format(" ± {} ns", *aligned.error_ns)
                              : std::string(same_clock ? "; error not known" : ", error not known");
    if (aligned.one_boot_error_ns.value_or(0) != 0)
      clock += fmt::format(" (± {} ns if it is one boot)", *aligned.one_boot_error_ns);
    if (aligned.rate_change_ppm)
      clock += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                           *aligned.rate_change_ppm);
    text.push_back({.text = std::move(clock), .label = "  clock:"});
  }
}

// What is printed and does not heed which vCPUs were asked for.
std::string of_all_vcpus(const ReportData& report) {
  std::string text;
  if (report.rows_of == RowsOf::kRequests) text += "requests, ";
  if (report.tables_asked.contains("--irq")) text += "interrupts, ";
  if (report.by.find("qemu-event") != std::string::npos) text += "QEMU's events, ";
  if (text.empty()) return "the counters";
  text.resize(text.size() - 2);
  return text + " and the counters";
}

// What was asked for, and what else is told all the same.
void add_selection(const ReportData& report, std::vector<Paragraph>& text) {
  if (!report.vcpus_asked.empty())
    text.push_back({.text = fmt::format("Only the vCPUs with {} are counted; {} are of all vCPUs.",
                                        report.vcpus_asked.text(), of_all_vcpus(report))});
  if (report.exits_asked.empty() || report.rows_of != RowsOf::kExits) return;
  text.push_back(
      {.text = fmt::format("Only exits with {} are in the rows, {} of {}; the vCPUs' times are "
                           "those of all exits.",
                           report.exits_asked.text(), grouped(report.exits_in_rows),
                           grouped(report.all_exits))});
}

void add_losses(const ReportData& report, std::vector<Paragraph>& sentences) {
  const ReportCounters& counters = report.counters;
  if (counters.gaps == 0) return;
  std::string text = losses_text(counters);
  const std::uint64_t left_out = counters.exits.closed_by_loss;
  if (left_out != 0)
    text += fmt::format("; left out: {} exit{} whose end may be among them", grouped(left_out),
                        left_out == 1 ? "" : "s");
  sentences.push_back({.text = std::move(text), .label = "LOST:", .look = LabelLook::kWarning});
}

std::vector<Paragraph> sentences_above(const ReportData& report, const std::string& finding) {
  std::vector<Paragraph> text;
  if (!finding.empty()) text.push_back({.text = finding, .figures = true});
  add_losses(report, text);
  add_sources(report, text);
  const bool calls = report.rows_of == RowsOf::kCalls;
  std::uint64_t exits = 0;
  for (const VcpuRow& row : report.vcpus) exits += row.totals.exits;
  const std::string interval = duration_text(report.end_ns - report.start_ns, report.cycles);
  text.push_back(
      {.text =
           report.lacks_entries && !calls
               ? fmt::format("exits in {}: not counted (kvm_entry was not recorded)", interval)
               : fmt::format("{} {} in {}", grouped(calls ? report.counters.calls.calls : exits),
                             calls ? "calls of guest functions" : "exits", interval),
       .verbatim = true});
  add_selection(report, text);
  return text;
}

Facts head_of(const ReportData& report, const std::string& finding) {
  Facts head = head_facts("report", report.cycles, report.start_ns, report.end_ns, report.counters);
  head.push_back({"user_end", to_value(name_of(report.model.user_end))});
  head.push_back({"from_userspace_exit", report.model.from_userspace_exit});
  add_filter(head, report.vcpus_asked, report.exits_asked);
  if (!report.exits_asked.empty()) {
    head.push_back({"all_exits.count", report.all_exits});
    head.push_back({"all_exits.cost_ns", report.all_cost_ns});
  }
  add_overhead(head, report);
  head.push_back({"finding", text_or_null(finding)});
  return head;
}

Table vmm_event_table(const ReportData& report) {
  TableOf<VmmEventRow> table(report.vmm_events, &VmmEventRow::name);
  table.key = "qemu_events";
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
  // One of each vCPU is cut at either edge of a recording.
  const std::uint64_t edges = report.threads;
  std::vector<CounterRow> rows = {
      {"exits", report.lacks_entries ? std::nullopt : std::optional(exits.exits)},
      {"exit_without_entry", exits.exit_without_entry,
       report.model.from_userspace_exit ? "exits to user space whose end was not recorded"
                                        : "kvm_exit without a kvm_entry after it",
       edges},
      {"entry_without_exit", exits.entry_without_exit, "kvm_entry without a kvm_exit before it",
       edges},
      {"closed_by_loss", exits.closed_by_loss},
      {"exits_stopped", exits.exits_stopped,
       "exits left out: their vCPU was paused or went offline in them", edges},
      {"lost_events", counters.lost_events},
      {"gaps", counters.gaps},
      {"gaps_uncounted", counters.gaps_uncounted},
      {"left_out_events", counters.left_out_events, "events left out on purpose, by --snapshot-on"},
      {"left_out_pieces", counters.left_out_pieces,
       "pieces of time that they lay in, on one CPU each"},
      {"qemu_events", exits.vmm_events},
      {"qemu_events_in_exits",
       report.durations() ? std::optional(exits.vmm_events_in_exits) : std::nullopt},
      {"guest_records", counters.guest_records},
      {"user_without_end", exits.user_without_end, "user intervals that only kvm_entry ended"},
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
  if (!data.notes.empty()) report.after.emplace_back();
  for (const std::string& note : data.notes) report.after.push_back(note_paragraph(note));
  // What came through the standard input is gone for another command.
  if (std::ranges::find(data.sources, kStandardInput, &SourceRow::path) == data.sources.end())
    report.next = next_steps(data, words);
  return report;
}

}  // namespace trapline
