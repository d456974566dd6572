#include "merge/render/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/model/processes.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

void print_rows(const std::string& title, const WaitRows& waits, bool cycles, std::ostream& out,
                const TextStyle& style) {
  if (waits.rows.empty()) return;
  std::vector<std::uint64_t> values, longest;
  for (const WaitRow& row : waits.rows) {
    values.push_back(row.ns);
    longest.push_back(row.max_ns);
  }
  const Unit unit = choose_unit(values, cycles), max = choose_unit(longest, cycles);
  TextTable table({title, fmt::format("time/{}", unit.name), "share", "times",
                   fmt::format("max/{}", max.name)});
  for (const WaitRow& row : waits.rows) {
    const std::string vm = row.vm.empty() || row.culprit.find("vm ") != std::string::npos
                               ? ""
                               : ", VM " + vm_text(row.vm, row.vm_name);
    table.add({row.culprit + vm, in_unit(row.ns, unit), percent_text(row.ns, waits.total_ns),
               grouped(row.count), in_unit(row.max_ns, max)});
  }
  out << '\n';
  table.print(out, style);
  print_left_out(waits.rows_left_out, out);
}

std::string heading(std::string_view part, const WaitRows& waits, bool cycles) {
  return fmt::format("{} {}, by", part, duration_text(waits.total_ns, cycles));
}

void print_csv_rows(std::string_view part, std::int32_t vcpu_tid, const WaitRows& waits,
                    std::ostream& out) {
  for (const WaitRow& row : waits.rows) {
    out << fmt::format("{},{},{},{},{},{},{},{},{}\n", part,
                       vcpu_tid < 0 ? "" : std::to_string(vcpu_tid), csv_cell(row.culprit),
                       row.tid < 0 ? "" : std::to_string(row.tid), row.process, row.vm, row.ns,
                       row.count, row.max_ns);
  }
}

}  // namespace

void print_waits(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.waits) return;
  const WaitReport& waits = *report.waits;
  const bool cycles = report.cycles;
  if (waits.preempted.rows.empty() && waits.blocked.rows.empty()) {
    out << "\nNo vCPU was preempted or blocked inside its exits, as far as was recorded.\n";
  }
  print_rows(heading("Preempted", waits.preempted, cycles), waits.preempted, cycles, out, style);
  print_rows(heading("Blocked", waits.blocked, cycles), waits.blocked, cycles, out, style);
  print_rows(fmt::format("Slept in halts {}, until", duration_text(waits.halted.total_ns, cycles)),
             waits.halted, cycles, out, style);
}

void print_steal(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.steal) return;
  for (const StealRow& row : *report.steal) {
    std::string name = row.vcpu < 0 ? "vCPU ?" : fmt::format("vCPU {}", row.vcpu);
    name = fmt::format("VM {} {} (tid {})", vm_text(row.vm, row.vm_name), name, row.tid);
    if (row.by.rows.empty()) {
      out << fmt::format("\n{}: nothing was stolen from it, as far as was recorded.\n", name);
      continue;
    }
    out << fmt::format("\n{}: for {} of {} ({}), in {} waits, it was runnable and did not run.\n",
                       name, duration_text(row.by.total_ns, report.cycles),
                       duration_text(report.end_ns - report.start_ns, report.cycles),
                       percent_text(row.by.total_ns, report.end_ns - report.start_ns),
                       grouped(row.waits));
    print_rows("Stolen by", row.by, report.cycles, out, style);
  }
}

void print_waits_csv(const Report& report, std::ostream& out) {
  if (!report.waits && !report.steal) return;
  out << "\npart,vcpu_tid,culprit,tid,process,vm,ns,count,max_ns\n";
  if (report.waits) {
    print_csv_rows("preempted", -1, report.waits->preempted, out);
    print_csv_rows("blocked", -1, report.waits->blocked, out);
  }
  if (!report.steal) return;
  for (const StealRow& row : *report.steal) print_csv_rows("steal", row.tid, row.by, out);
}

}  // namespace trapline
