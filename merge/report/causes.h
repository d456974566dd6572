// The usual advice for each class of waiting: the table of docs/explain.md, word for word.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "merge/analyze/culprit.h"
#include "merge/model/processes.h"

namespace trapline {

struct Cause {
  std::string_view id;      // "preempted-by-thread"
  std::string_view advice;  // one sentence
  std::string_view source;  // where the advice is documented
};
[[nodiscard]] std::span<const Cause> causes();
[[nodiscard]] const Cause* find_cause(std::string_view id);

// Threads of the kernel that an isolated cpuset does not keep off its CPUs.
enum class KernelThread : std::uint8_t {
  kNone,
  kKworker,         // kworker/0:1, kworker/0:1H: of one CPU
  kUnboundKworker,  // kworker/u8:0
  kSoftirqs,        // ksoftirqd/0
  kRcuCallbacks,    // rcuc/0
  kInterrupt,       // irq/27-virtio
  kOfCpu,           // migration/0, cpuhp/0, idle_inject/0, ...: others of one CPU
};
[[nodiscard]] KernelThread kernel_thread(std::string_view comm);

// Facts about a wait besides its culprit.
struct Circumstances {
  bool by_vcpu = false;  // the culprit is a vCPU
  bool of_vmm = false;   // the culprit is a thread of a VM's process
  // The exit's device, or the culprit's QEMU event, can be in an iothread.
  bool iothread_device = false;
  bool recorder = false;  // the culprit is the recorder, which is gone when nobody records
  KernelThread kernel = KernelThread::kNone;  // the culprit is a kernel thread that no cpuset moves
  // Length of the sleep in a halt: polling helps only with short ones.
  std::uint64_t sleep_ns = 0;
  bool throttled = false;  // a CPU quota throttled the vCPU's cgroup during the recording
};
// Returns whether the name of a device or of a QEMU event contains virtio-blk or virtio-scsi.
[[nodiscard]] bool can_have_iothread(std::string_view name);
struct Naming;
[[nodiscard]] Circumstances circumstances_of(const Culprit& culprit, const Naming& names);
// Says how often and how long a quota throttled a cgroup, and what is not known about it.
[[nodiscard]] std::string quota_sentence(const CpuQuota& quota);

// Returns the advice for the wait in an exit's largest part; nullptr if nothing is known to help.
[[nodiscard]] const Cause* cause_of(Part part, const Culprit& culprit, const Circumstances& around);

}  // namespace trapline
