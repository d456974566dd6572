#include "merge/report/causes.h"

namespace trapline {
namespace {

constexpr Cause kCauses[] = {
    {"preempted-by-thread",
     "Keep other threads off the vCPU's CPU: give the vCPUs CPUs of their own with an isolated "
     "cpuset partition.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition"},
    {"preempted-by-vcpu", "Two vCPUs share a CPU: give each of them a CPU of its own with cpusets.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus"},
    {"preempted-by-vmm",
     "QEMU's own threads run on the vCPU's CPU: put them in a cpuset beside that of the vCPUs.",
     "Linux, Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus"},
    {"preempted-by-idle",
     "The CPU was idle and took time to wake up: a limit on the depth of its sleep states shortens "
     "that.",
     "Linux, Documentation/power/pm_qos_interface.rst, /dev/cpu_dma_latency"},
    {"preempted-by-interrupt",
     "Interrupts of the host were served on the vCPU's CPU: smp_affinity_list in /proc/irq moves "
     "them "
     "to other CPUs.",
     "Linux, Documentation/core-api/irq/irq-affinity.rst, smp_affinity_list"},
    {"blocked-on-timer",
     "The vCPU slept until a timer: where it halts often and for a short time, halt polling "
     "(halt_poll_ns) saves the wake-up.",
     "Linux, Documentation/virt/kvm/halt-polling.rst"},
    {"blocked-on-ipi",
     "The vCPU slept until another vCPU's interrupt: halt polling (halt_poll_ns) saves the "
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

std::string_view id_of(Part part, const Culprit& culprit, bool by_vcpu, bool of_vmm) {
  if (part == Part::kPreempted) {
    if (culprit.kind == CulpritKind::kIdle) return "preempted-by-idle";
    if (culprit.kind == CulpritKind::kInterrupt || culprit.kind == CulpritKind::kSoftirq)
      return "preempted-by-interrupt";
    if (culprit.kind != CulpritKind::kThread) return {};
    return by_vcpu ? "preempted-by-vcpu" : of_vmm ? "preempted-by-vmm" : "preempted-by-thread";
  }
  if (part != Part::kBlocked) return {};
  switch (culprit.kind) {
    case CulpritKind::kTimer:
      return "blocked-on-timer";
    case CulpritKind::kIpi:
      return "blocked-on-ipi";
    case CulpritKind::kDisk:
      return "blocked-on-disk";
    case CulpritKind::kInterrupt:
      return "blocked-on-interrupt";
    case CulpritKind::kLock:
      return of_vmm ? "blocked-on-vmm" : std::string_view();
    case CulpritKind::kThread:
      // A vCPU wakes another one from the kernel too; its QEMU event tells that it was in QEMU.
      return of_vmm && (!by_vcpu || culprit.handler != kNoName) ? "blocked-on-vmm"
                                                                : std::string_view();
    default:
      return {};
  }
}

}  // namespace

std::span<const Cause> causes() { return kCauses; }

const Cause* find_cause(std::string_view id) {
  for (const Cause& cause : kCauses) {
    if (cause.id == id) return &cause;
  }
  return nullptr;
}

const Cause* cause_of(Part part, const Culprit& culprit, bool by_vcpu, bool of_vmm) {
  return find_cause(id_of(part, culprit, by_vcpu, of_vmm));
}

}  // namespace trapline
