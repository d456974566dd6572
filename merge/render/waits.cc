#include "merge/model/kernel_events.h"
#include "merge/render/report_text.h"

#include <fmt/format.h>

#include <string>

#include "merge/model/processes.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

void print_rows(std::string_view title, const WaitRows& waits, bool cycles, std::ostream& out,
                const TextStyle& style) {
  print_table(wait_table(waits, {}, -1), title, cycles, out, style);
}

void print_steal(const Report& report, std::ostream& out, const TextStyle& style) {
  for (const StealRow& row : *report.steal) {
    const std::string name = fmt::format("VM {} {} (tid {})", vm_text(row.vm, row.vm_name),
                                         vcpu_text(row.vcpu), row.tid);
    out << '\n';
    if (!report.model.sched_switch) {
      print_wrapped(fmt::format("{}: what was stolen from it was not recorded ({}).", name,
                                events::sched_switch.full_name),
                    out, style);
      continue;
    }
    if (row.by.rows.empty()) {
      print_wrapped(name + ": nothing was stolen from it, as far as was recorded.", out, style);
      continue;
    }
    print_wrapped(
        fmt::format("{}: for {} of {} ({}), in {} waits, it was runnable and did not run.", name,
                    duration_text(row.by.total_ns, report.cycles),
                    duration_text(report.end_ns - report.start_ns, report.cycles),
                    percent_text(row.by.total_ns, report.end_ns - report.start_ns),
                    grouped(row.waits)),
        out, style, {.figures = true});
    print_rows("Stolen by", row.by, report.cycles, out, style);
  }
}

}  // namespace

void print_waits(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.waits) {
    const WaitReport& waits = *report.waits;
    if (!report.knows(State::kPreempted)) {
      out << '\n';
      print_wrapped(fmt::format("Whether a vCPU was preempted or blocked was not recorded ({}).",
                                events::sched_switch.full_name),
                    out, style);
    } else if (waits.preempted.rows.empty() && waits.blocked.rows.empty()) {
      out << '\n';
      print_wrapped("No vCPU was preempted or blocked inside its exits, as far as was recorded.",
                    out, style);
    }
    const auto print = [&](std::string_view title, const WaitRows& rows) {
      const std::string time = duration_text(rows.total_ns, report.cycles);
      print_rows(fmt::format(fmt::runtime(title), time), rows, report.cycles, out, style);
    };
    print("Preempted {}, by", waits.preempted);
    print("Blocked {}, by", waits.blocked);
    print("Slept in halts {}, until", waits.halted);
  }
  if (report.steal) print_steal(report, out, style);
}

}  // namespace trapline
