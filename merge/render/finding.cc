#include <fmt/format.h>

#include "merge/render/render.h"
#include "merge/render/units.h"

namespace trapline {

std::string finding_text(const Report& report) {
  if (!report.overhead || report.overhead->busy_ns() == 0) return {};
  const Overhead& overhead = *report.overhead;
  const std::uint64_t busy = overhead.busy_ns();
  const auto time = [&report](std::uint64_t ns) { return duration_text(ns, report.cycles); };
  const std::string_view vcpus = report.vcpus.size() == 1 ? "The vCPU was" : "The vCPUs were";
  const std::uint64_t halted = report.halted_ns();
  std::string text = fmt::format("{} busy for {}", vcpus, time(busy));
  std::uint64_t paused = 0;
  for (const VcpuRow& row : report.vcpus) paused += row.totals.paused_ns;
  if (halted != 0) text += (paused != 0 ? ", halted for " : " and halted for ") + time(halted);
  if (paused != 0) text += " and paused for " + time(paused);
  // A guest that idles without a halt does so in its own time; a halt that nothing divides has part
  // of the cost.
  const std::string_view least = report.saw_halts && !report.whole_halts ? "" : "at least ";
  text += fmt::format(". Of the busy time the guest ran {}; exits cost {}{}",
                      percent_text(overhead.guest_ns, busy), least,
                      percent_text(overhead.exit_ns, busy));
  // A key that begins with these names nothing: "-", "[other]"; one that is of waits
  // names no exit.
  const bool of_waits =
      report.by.find("-by") != report.by.npos || report.by.find("-on") != report.by.npos;
  if (!report.exits_asked.empty())
    text +=
        fmt::format(" ({} of it by those with {})",
                    percent_text(report.cost_ns, report.all_cost_ns), report.exits_asked.text());
  else if (!of_waits && !report.costliest.empty() && report.costliest.find_first_of("-[") != 0)
    text += fmt::format(" ({} of that: {})", percent_text(report.costliest_ns, report.cost_ns),
                        report.costliest);
  if (!report.knows(State::kUser))
    text += "; how much of it QEMU took was not recorded (kvm:kvm_userspace_exit)";
  if (!report.knows(State::kPreempted)) {
    text += "; whether a vCPU had to wait for a CPU was not recorded (sched:sched_switch).";
  } else if (overhead.not_run_ns == 0) {
    text += "; no vCPU had to wait for a CPU.";
  } else {
    text += fmt::format("; for {}{} a vCPU was ready and did not run.", least,
                        percent_text(overhead.not_run_ns, busy));
  }
  return text;
}

}  // namespace trapline
