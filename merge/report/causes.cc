#include "merge/report/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"

namespace trapline {
namespace {

constexpr Cause kCauses[] = {
    {"preempted-by-thread",
     "Keep other threads off the vCPU's CPU: give the vCPUs CPUs of their own with an isolated "
     "cpuset partition.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition"},
    {"preempted-by-kworker",
     "The kworker belongs to that CPU, no cpuset moves it: keep what queues its work, interrupts "
     "and other threads, off the CPU (irqaffinity=, isolcpus=, nohz_full=), or move the vCPU.",
     "Linux, Documentation/admin-guide/kernel-per-CPU-kthreads.rst, kworker"},
    {"preempted-by-unbound-kworker",
     "The kworker belongs to no CPU: /sys/devices/virtual/workqueue/cpumask keeps such ones off "
     "the vCPU's CPU.",
     "Linux, kernel/workqueue.c, wq_unbound_cpumask"},
    {"preempted-by-ksoftirqd",
     "ksoftirqd serves what was raised on its CPU, no cpuset moves it: keep interrupts off that "
     "CPU (irqaffinity=, smp_affinity_list), or move the vCPU.",
     "Linux, Documentation/admin-guide/kernel-per-CPU-kthreads.rst, ksoftirqd"},
    {"preempted-by-rcuc",
     "rcuc runs its CPU's RCU callbacks, no cpuset moves it: rcu_nocbs= has others run them.",
     "Linux, Documentation/admin-guide/kernel-per-CPU-kthreads.rst, rcuc"},
    {"preempted-by-cpu-kthread",
     "The kernel's thread belongs to that CPU, no cpuset moves it: a vCPU on another CPU does not "
     "meet it.",
     "Linux, Documentation/admin-guide/kernel-per-CPU-kthreads.rst"},
    {"preempted-by-vcpu", "Two vCPUs share a CPU: give each of them a CPU of its own with cpusets.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus"},
    {"preempted-by-vmm",
     "QEMU's own threads run on the vCPU's CPU: put them in a cpuset beside that of the vCPUs.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus"},
    {"not-allowed-to-run",
     "The CPU had nothing else to run and did not run the vCPU: cpu.stat of its cgroups counts "
     "what a CPU quota throttled (trapline record keeps it); core scheduling and RT throttling "
     "count nothing there.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.stat; "
     "Documentation/admin-guide/hw-vuln/core-scheduling.rst"},
    {"cpu-quota",
     "The vCPU's cgroup had used up its CPU quota: raise cpu.max (cgroup v1: cpu.cfs_quota_us), or "
     "allow bursts with cpu.max.burst.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max, cpu.max.burst"},
    {"preempted-by-interrupt",
     "Interrupts of the host were served on the vCPU's CPU: smp_affinity_list in /proc/irq moves "
     "them to other CPUs.",
     "Linux, Documentation/core-api/irq/irq-affinity.rst, smp_affinity_list"},
    {"halted-until-timer",
     "The vCPU was halted until a timer: where it halts often and for a short time, halt polling "
     "(halt_poll_ns) saves the wake-up.",
     "Linux, Documentation/virt/kvm/halt-polling.rst"},
    {"halted-until-ipi",
     "The vCPU was halted until another vCPU's interrupt: halt polling (halt_poll_ns) saves the "
     "wake-up where the sleeps are short.",
     "Linux, Documentation/virt/kvm/halt-polling.rst"},
    {"blocked-on-vmm",
     "The vCPU waited for a thread of QEMU: serve the device in an IOThread, which does not need "
     "QEMU's global lock.",
     "QEMU, docs/devel/multiple-iothreads.rst"},
    {"blocked-on-disk",
     "The vCPU's thread waited for the host's disk: io.pressure says how much its cgroup stalls, "
     "and io.latency protects it from its peers.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, io.pressure, io.latency"},
    {"blocked-on-interrupt",
     "A device's interrupt ended the sleep: smp_affinity_list in /proc/irq says which CPUs it may "
     "come to.",
     "Linux, Documentation/core-api/irq/irq-affinity.rst, smp_affinity_list"},
};

// The longest sleep, in ns, for which halt polling is advised: five times the 200 us for which KVM
// polls at most, unless halt_poll_ns is raised.
constexpr std::uint64_t kLongestPolled = 1'000'000;

// Returns whether the softirq runs on the CPU of its interrupt: NET_TX, NET_RX, BLOCK and IRQ_POLL.
// Affinity does not move TIMER, TASKLET, SCHED, HRTIMER and RCU (Linux, include/linux/interrupt.h).
bool follows_interrupt(std::uint32_t softirq) { return softirq >= 2 && softirq <= 5; }

std::string_view id_of(Part part, const Culprit& culprit, const Circumstances& around) {
  const bool by_vcpu = around.by_vcpu;
  if (part == Part::kPreempted) {
    if (culprit.kind == CulpritKind::kInterrupt ||
        (culprit.kind == CulpritKind::kSoftirq && follows_interrupt(culprit.number)))
      return "preempted-by-interrupt";
    if (culprit.kind == CulpritKind::kNotAllowed) return "not-allowed-to-run";
    if (culprit.kind == CulpritKind::kQuota) return "cpu-quota";
    // A throttled vCPU may have waited for its quota rather than for the culprit's thread.
    if (culprit.kind != CulpritKind::kThread || around.throttled || around.recorder) return {};
    if (!around.kernel.empty()) return around.kernel;
    return by_vcpu         ? "preempted-by-vcpu"
           : around.of_vmm ? "preempted-by-vmm"
                           : "preempted-by-thread";
  }
  const bool halted = part == Part::kHalted, short_sleep = around.sleep_ns <= kLongestPolled;
  if (part != Part::kBlocked && !halted) return {};
  const auto is = [&](auto... kinds) { return ((culprit.kind == kinds) || ...); };
  // KVM polls only in halts: advice on polling fits no other sleep.
  if (is(CulpritKind::kTimer))
    return halted && short_sleep ? "halted-until-timer" : std::string_view();
  if (is(CulpritKind::kIpi)) return halted && short_sleep ? "halted-until-ipi" : std::string_view();
  if (is(CulpritKind::kDisk)) return "blocked-on-disk";
  if (is(CulpritKind::kInterrupt)) return "blocked-on-interrupt";
  // A vCPU may wake another one from inside KVM: only an event of QEMU (culprit.handler) shows that
  // the waking vCPU was in QEMU.
  const bool by_vmm = is(CulpritKind::kFutex, CulpritKind::kLock) ||
                      (is(CulpritKind::kThread) && (!by_vcpu || culprit.handler != kNoName));
  return by_vmm && around.of_vmm && around.iothread_device ? "blocked-on-vmm" : std::string_view();
}

}  // namespace

std::span<const Cause> causes() { return kCauses; }

bool can_have_iothread(std::string_view name) {
  constexpr std::string_view kDevices[] = {"virtio-blk", "virtio-scsi", "virtio_blk",
                                           "virtio_scsi"};
  return std::any_of(std::begin(kDevices), std::end(kDevices), [name](std::string_view device) {
    return name.find(device) != std::string_view::npos;
  });
}

std::string_view kernel_thread(std::string_view comm) {
  constexpr std::pair<std::string_view, std::string_view> kCauseOf[] = {
      {"kworker/u", "preempted-by-unbound-kworker"},  // kworker/u8:0
      {"kworker/", "preempted-by-kworker"},           // of one CPU: kworker/0:1, kworker/0:1H
      {"ksoftirqd/", "preempted-by-ksoftirqd"},
      {"rcuc/", "preempted-by-rcuc"},
      {"irq/", "preempted-by-interrupt"},
      {"migration/", "preempted-by-cpu-kthread"},
      {"cpuhp/", "preempted-by-cpu-kthread"},
      {"idle_inject/", "preempted-by-cpu-kthread"},
      {"watchdog/", "preempted-by-cpu-kthread"},
      {"ktimers/", "preempted-by-cpu-kthread"}};
  for (const auto& [name, cause] : kCauseOf) {
    const std::string_view number = comm.substr(std::min(name.size(), comm.size()));
    if (comm.starts_with(name) && !number.empty() && number[0] >= '0' && number[0] <= '9')
      return cause;
  }
  return {};
}

Circumstances circumstances_of(const Culprit& culprit, ThreadId waiting, const Naming& names) {
  Circumstances around;
  if (!culprit.is_thread()) return around;
  around.by_vcpu = names.is_vcpu(culprit.thread);
  const std::string comm = names.comm(culprit.thread);
  // QEMU's threads have the program's name: this helps if the threads' processes are not known.
  const ThreadId process = names.processes.of(unnamed(culprit.thread), ThreadId{}),
                 own = names.processes.of(waiting, ThreadId{});
  around.of_vmm = process != ThreadId{} && own != ThreadId{}
                      ? process == own
                      : !names.vcpus.several_vms() && comm.starts_with("qemu-");
  around.kernel = kernel_thread(comm);
  for (const std::string_view recorder : {"trace-cmd", "trapline", "perf"})
    around.recorder |= comm.starts_with(recorder);
  around.iothread_device =
      culprit.handler != kNoName && can_have_iothread(names.names[culprit.handler]);
  return around;
}

std::string quota_sentence(const CpuQuota& quota) {
  return fmt::format(
      "The CPU quota of {} throttled its threads {} times in the recording, for {:.1f} ms "
      "together: where other threads ran, the events do not tell whether the vCPU waited for them "
      "or for the quota.",
      printable(quota.cgroup), quota.throttled, static_cast<double>(quota.throttled_ns) / 1e6);
}

const Cause* cause_of(Part part, const Culprit& culprit, const Circumstances& around) {
  const std::string_view id = id_of(part, culprit, around);
  const Cause* const cause = std::ranges::find(kCauses, id, &Cause::id);
  return cause == std::end(kCauses) ? nullptr : cause;
}

}  // namespace trapline
