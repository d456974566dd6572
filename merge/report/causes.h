// What each class of waiting usually asks for: the table of docs/explain.md, word for word.
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
  std::string_view source;  // where that is documented
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
  kOfCpu,           // migration/0, cpuhp/0, idle_inject/0, ...: of one CPU as well
};
[[nodiscard]] KernelThread kernel_thread(std::string_view comm);

// What is known of the wait besides its culprit.
struct Circumstances {
  bool by_vcpu = false;          // the culprit is a vCPU
  bool of_vmm = false;           // it is a thread of a VM's process
  bool iothread_device = false;  // of the exit, or of the culprit's QEMU event: it can be in one
  bool recorder = false;         // the culprit records: it is gone when nobody looks
  KernelThread kernel = KernelThread::kNone;  // the culprit is one that no cpuset moves
  std::uint64_t sleep_ns = 0;  // of a halt: how long it slept; polling saves what is short
  bool throttled = false;      // a CPU quota throttled the vCPU's cgroup in the recording
};
// virtio-blk and virtio-scsi, in the name of a device or of a QEMU event.
[[nodiscard]] bool can_have_iothread(std::string_view name);
struct Naming;
[[nodiscard]] Circumstances circumstances_of(const Culprit& culprit, const Naming& names);
// How often and how long a quota throttled a cgroup, and what that leaves open.
[[nodiscard]] std::string quota_sentence(const CpuQuota& quota);

// The class of an exit's largest part; nullptr where nothing is known to help.
[[nodiscard]] const Cause* cause_of(Part part, const Culprit& culprit, const Circumstances& around);

}  // namespace trapline
