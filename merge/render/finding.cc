#include <fmt/format.h>

#include <algorithm>

#include "merge/model/kernel_events.h"
#include "merge/render/render.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::uint64_t time_in(const Report& report, State state) {
  std::uint64_t sum = 0;
  for (const VcpuRow& row : report.vcpus) sum += VcpuTotals(row.totals).of(state);
  return sum;
}

// "the vCPU's 1.2 s"
std::string whole_text(const Report& report) {
  return fmt::format("{} {}", report.vcpus.size() == 1 ? "the vCPU's" : "the vCPUs'",
                     duration_text(report.vcpu_time(), report.cycles));
}

// A key that begins with these names nothing: "-", "[other]".
bool is_named(std::string_view key) { return !key.empty() && key.find_first_of("-[") != 0; }

// Where there are no exits: what a guest loses to emulation has no event of its own.
std::string finding_of_calls(const Report& report) {
  const std::uint64_t whole = report.vcpu_time();
  if (whole == 0 || report.rows.empty()) return {};
  std::string text = fmt::format("Of {} recorded guest functions had {}", whole_text(report),
                                 percent_text(whole - time_in(report, State::kNotSeen), whole));
  const GroupRow& most = report.rows.front();
  if (is_named(most.key) && !most.key.ends_with(" / -"))
    text += fmt::format(" ({}: {})", percent_text(most.total.total(), whole), most.key);
  text += fmt::format("; in them the guest ran {}",
                      percent_text(time_in(report, State::kGuest), whole));
  if (report.knows(State::kUser)) {
    std::uint64_t at_most = report.left_out.devices_at_most_ns;
    for (const GroupRow& row : report.rows) at_most += row.devices_at_most_ns;
    const std::uint64_t least = time_in(report, State::kUser);
    text += fmt::format(", QEMU's devices {} to {}", percent_text(least, whole),
                        percent_text(least + at_most, whole));
  }
  if (report.knows(State::kPreempted))
    text += fmt::format(
        ", and for {} it was ready and did not run, or slept",
        percent_text(time_in(report, State::kPreempted) + time_in(report, State::kBlocked), whole));
  return text +
         fmt::format(". What leaving the guest cost was not recorded ({}; emulation has none).",
                     events::kvm_exit.full_name);
}

std::string finding_without_overhead(const Report& report) {
  if (report.rows_of == RowsOf::kCalls) return finding_of_calls(report);
  if (report.rows_of != RowsOf::kExits || !report.model.from_userspace_exit) return {};
  if (!report.durations()) {
    if (report.rows.empty()) return {};
    const GroupRow& most = *std::ranges::max_element(
        report.rows, {}, [](const GroupRow& row) { return row.total.count(); });
    std::uint64_t all = report.left_out.total.count();
    for (const GroupRow& row : report.rows) all += row.total.count();
    std::string text =
        fmt::format("How long the exits took was not recorded ({})", events::kvm_exit.full_name);
    if (report.exits_asked.empty() && is_named(most.key) && !most.key.ends_with(" / -"))
      text += fmt::format("; {} of those to QEMU were {}", percent_text(most.total.count(), all),
                          most.key);
    return text + '.';
  }
  const std::uint64_t whole = report.vcpu_time();
  if (whole == 0) return {};
  std::string text = fmt::format("Of {} exits cost at least {}", whole_text(report),
                                 percent_text(report.whole_cost_ns(), whole));
  if (report.exits_asked.empty() && is_named(report.costliest))
    text += fmt::format(" ({} of that: {})", percent_text(report.costliest_ns, report.cost_ns),
                        report.costliest);
  return text + fmt::format(", in QEMU; what KVM and the guest took was not recorded ({}).",
                            events::kvm_exit.full_name);
}

// The costliest row's share of what all exits cost, `exit_ns`. Exits that a loss cuts cost time and
// are in no row: which share of theirs is the row's is not known.
std::string costliest_text(const Report& report, std::uint64_t exit_ns) {
  constexpr std::uint64_t kPercent = 100;
  const std::string_view least =
      report.whole_cost_ns() < exit_ns - exit_ns / kPercent ? "at least " : std::string_view();
  if (!report.exits_asked.empty()) {
    return fmt::format(" ({}{} of it by those with {})", least,
                       percent_text(report.cost_ns, exit_ns), report.exits_asked.text());
  }
  // One that is of waits, or of the kernel's part alone, names no exit; nor does whose exit it is:
  // the guest's exits are not the guest's time.
  for (const std::string_view no_exit : {"-by", "-on", "kernel-function", "nested"})
    if (report.by.find(no_exit) != report.by.npos) return {};
  if (!is_named(report.costliest)) return {};
  // Another row may have more.
  if (exit_ns > report.cost_ns && exit_ns - report.cost_ns > report.costliest_ns) return {};
  return fmt::format(" ({} of that: {})",
                     std::string(least) + percent_text(report.costliest_ns, exit_ns),
                     report.costliest);
}

// Who ran while the vCPUs were ready, of `not_run_ns`: where the waits were followed, and neither a
// loss nor a wait of which something is assumed can make another one's share larger.
std::string ran_instead_text(const Report& report, std::uint64_t not_run_ns) {
  if (!report.waits || report.waits->ran_most.empty()) return {};
  const ReportCounters& counters = report.counters;
  if (counters.gaps != 0 || counters.left_out_pieces != 0) return {};
  const WaitCounters waits = report.wait_counters.value_or(WaitCounters());
  if (waits.cut_by_loss != 0 || waits.cpu_assumed != 0) return {};
  const std::uint64_t told_ns = report.waits->preempted.total_ns, ns = report.waits->ran_most_ns;
  if (told_ns > not_run_ns || ns < report.waits->others_at_most_ns + (not_run_ns - told_ns))
    return {};
  return fmt::format(" ({} of that: {} ran instead)", percent_text(ns, not_run_ns),
                     report.waits->ran_most);
}

}  // namespace

std::string finding_text(const Report& report) {
  if (!report.overhead) return finding_without_overhead(report);
  if (report.overhead->busy_ns() == 0) return {};
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
  const std::string_view least = report.costs_at_least ? "at least " : "";
  text += fmt::format(". Of the busy time the guest ran {}; exits cost {}{}",
                      percent_text(overhead.guest_ns, busy), least,
                      percent_text(overhead.exit_ns, busy));
  text += costliest_text(report, overhead.exit_ns);
  if (!report.knows(State::kUser))
    text += fmt::format("; how much of it QEMU took was not recorded ({})",
                        events::kvm_userspace_exit.full_name);
  if (!report.knows(State::kPreempted)) {
    text += fmt::format("; whether a vCPU had to wait for a CPU was not recorded ({}).",
                        events::sched_switch.full_name);
  } else if (overhead.not_run_ns == 0) {
    const bool seen = report.counters.gaps == 0 && time_in(report, State::kNotSeen) == 0;
    text +=
        fmt::format("; {}no vCPU had to wait for a CPU.", seen ? "" : "in the time that was seen ");
  } else {
    text += fmt::format("; for {}{} a vCPU was ready and did not run{}.", least,
                        percent_text(overhead.not_run_ns, busy),
                        ran_instead_text(report, overhead.not_run_ns));
  }
  return text;
}

}  // namespace trapline
