#include "merge/render/report_text.h"

#include <fmt/format.h>

#include <string>

#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {

void print_kernel(const Report& report, std::ostream& out, const TextStyle& style) {
  if (!report.kernel) return;
  const KernelReport& kernel = *report.kernel;
  if (!report.knows(State::kKernel)) {
    out << '\n';
    print_wrapped("The kernel's time in exits was not recorded (kvm:kvm_exit).", out, style);
    return;
  }
  const std::string_view who = report.knows(State::kUser) ? "The kernel" : "The kernel or QEMU";
  const std::string total = duration_text(kernel.total_ns, report.cycles);
  print_table(kernel_table(kernel), fmt::format("{} {}, in", who, total), report.cycles, out,
              style);
  if (kernel.total_ns == 0 || kernel.untraced_ns != kernel.total_ns) return;
  print_wrapped(
      "No event was recorded in it that tells more (record kvm, irq_vectors, "
      "irq:softirq_entry, irq:softirq_exit, timer:hrtimer_expire_entry, "
      "timer:hrtimer_expire_exit).",
      out, style);
}

namespace {

// "in other parts of exits 12, of the guest 3; lost 5"
std::string other_samples(const KernelSampleReport& samples) {
  const char* guest =
      samples.by_timer ? "of the guest and of entering and leaving it" : "of the guest";
  const SampleCounters& at = samples.counters;
  std::string text;
  for (const auto& [number, where] :
       {std::pair{at.kernel - samples.samples, "in the kernel's part of other exits"},
        std::pair{at.elsewhere, "in exits' other parts"},
        std::pair{at.outside, "of vCPUs outside of exits"}, std::pair{at.guest, guest},
        std::pair{at.no_room, "for which there was no room"},
        std::pair{at.others, "of other threads"}}) {
    if (number != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, where);
  }
  if (samples.lost != 0) text += fmt::format("{}{} lost", text.empty() ? "" : "; ", samples.lost);
  return text;
}

}  // namespace

std::vector<std::string> kernel_sample_notes(const Report& report,
                                             const KernelSampleReport& samples) {
  if (!report.knows(State::kKernel))
    return {"The kernel's time in exits was not recorded (kvm:kvm_exit)."};
  if (samples.counters.all() == 0)
    return {"No samples were recorded (trapline record --kernel-samples HZ)."};
  std::vector<std::string> notes;
  if (const std::string others = other_samples(samples); !others.empty())
    notes.push_back(fmt::format("Other samples: {}.", others));
  if (samples.throttled != 0)
    notes.push_back(fmt::format(
        "perf took no samples for a while, {} times (kernel.perf_cpu_time_max_percent).",
        samples.throttled));
  if (samples.by_timer)
    notes.emplace_back(
        "A timer took the samples; each stands for its period, the work of taking it included. "
        "Time without samples, while interrupts are off or the timer is late, is \"not sampled\": "
        "low takes it for other code's, high for all code's alike. Where interrupts come on again "
        "has samples of the time before.");
  return notes;
}

void print_kernel_samples(const Report& report, const KernelSampleReport& samples,
                          std::ostream& out, const TextStyle& style) {
  if (report.knows(State::kKernel) && samples.counters.all() != 0) {
    const std::string total = duration_text(samples.total_ns, report.cycles);
    print_table(
        kernel_sample_table(samples),
        fmt::format("The kernel{} {}, by {} samples, low and high at 95 %, in",
                    report.knows(State::kUser) ? "" : " or QEMU", total, grouped(samples.samples)),
        report.cycles, out, style);
  } else {
    out << '\n';
  }
  for (const std::string& note : kernel_sample_notes(report, samples))
    print_wrapped(note, out, style);
}

}  // namespace trapline
