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

// Returns the id of the cause for a wait for this thread of the kernel, which an isolated cpuset
// does not keep off its CPU; empty for any other thread.
[[nodiscard]] std::string_view kernel_thread(std::string_view comm);

// Facts about a wait besides its culprit.
struct Circumstances {
  bool by_vcpu = false;  // the culprit is a vCPU
  bool of_vmm = false;   // the culprit is a thread of the process of the vCPU's VM
  // The exit's device, or the culprit's QEMU event, can be in an iothread.
  bool iothread_device = false;
  bool recorder = false;      // the culprit is the recorder, which is gone when nobody records
  std::string_view kernel{};  // kernel_thread() of the culprit
  // Length of the sleep in a halt: polling helps only with short ones.
  std::uint64_t sleep_ns = 0;
  bool throttled = false;  // a CPU quota throttled the vCPU's cgroup during the recording
};
// Returns whether the name of a device or of a QEMU event contains virtio-blk or virtio-scsi.
[[nodiscard]] bool can_have_iothread(std::string_view name);
struct Naming;
// `waiting`: the vCPU that waited.
[[nodiscard]] Circumstances circumstances_of(const Culprit& culprit, ThreadId waiting,
                                             const Naming& names);
// Says how often and how long a quota throttled a cgroup, and what is not known about it.
[[nodiscard]] std::string quota_sentence(const CpuQuota& quota);

// Returns the advice for the wait in an exit's largest part; nullptr if nothing is known to help.
[[nodiscard]] const Cause* cause_of(Part part, const Culprit& culprit, const Circumstances& around);

}  // namespace trapline
