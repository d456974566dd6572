// What the numbers of threads, exits and culprits are called: of what a pass has met so far. A vCPU
// that has had no exit yet is named as a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/page_faults.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/model/exit_span.h"
#include "merge/model/names.h"
#include "merge/model/processes.h"
#include "merge/pass/selection.h"
#include "merge/source/source.h"
#include "merge/source/timeline.h"

namespace trapline {

// The words for what an exit was: the same in every report, timeline and export.

// "io", "EXTERNAL_INTERRUPT", "DABT_LOW": the recording's own names, else the number.
[[nodiscard]] std::string reason_text(const Source& source, const ExitReason& reason);
// "port 0x402 write", "mmio 0xfed000f0 read", "msr 0x6e0 write", "cpuid 0x40000000",
// "sysreg S3_0_C12_C11_5 write", "cr0 write", "hypercall 0x5", "page-fault 0x1000"; "-" when there
// is none.
[[nodiscard]] std::string detail_text(const KvmDetail& detail);
// "first-touch"; "madvise(MADV_DONTNEED)", "collapse", "dirty ring", empty where it is not known.
[[nodiscard]] std::string_view key_of(FaultCause cause);
[[nodiscard]] std::string how_text(const PageFault::Why& why);
// "guest", "guest enters nested guest", "nested guest", "nested guest, passed on".
[[nodiscard]] std::string_view nested_text(NestedLevel level);
// A device's, a guest function's or an event's name; "-" of none.
[[nodiscard]] std::string name_or_dash(const Names& names, NameId name);

// What vCPU threads and their VMs are called in reports.

// The threads that the tracker met, in its order. Their vCPU is the one that events tell, else that
// in the thread's name.
[[nodiscard]] std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                                   const Timeline& timeline);
// The same where there is no timeline: `comm` gives the name of a source's thread.
using CommOf = std::function<std::string(std::size_t source, ThreadId thread)>;
[[nodiscard]] std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                                   const CommOf& comm);

class VcpuNames {
 public:
  VcpuNames() = default;
  // `vms` is that of each thread: find_vms().
  VcpuNames(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms);

  // "web01 (1234)", "1234" without a name, "~1234" where it is inferred, "?" for a thread that is
  // no vCPU.
  [[nodiscard]] std::string vm(ThreadId thread) const;
  // "1234": without the name; and the name alone, empty where it has none.
  [[nodiscard]] std::string vm_id(ThreadId thread) const;
  [[nodiscard]] std::string vm_name(ThreadId thread) const;
  // "vCPU 0", "tid 117" where its number is not known; with_vm: "VM 1234 vCPU 0" where there are
  // several VMs.
  [[nodiscard]] std::string vcpu(ThreadId thread, bool with_vm) const;
  // kNoVcpu where its number is not known.
  [[nodiscard]] std::int32_t number(ThreadId thread) const;
  // The VM of that id, nullptr where there is none.
  [[nodiscard]] const Vm* vm_of(const std::string& id) const;
  // Whether the filter holds the thread; of one that is no vCPU, it does not.
  [[nodiscard]] bool fits(ThreadId thread, const VcpuFilter& filter) const;
  [[nodiscard]] bool several_vms() const { return several_vms_; }

 private:
  struct Entry {
    std::int32_t vcpu = kNoVcpu;
    Vm vm;
  };
  [[nodiscard]] const Entry* find(ThreadId thread) const;
  std::map<ThreadId, Entry> entries_;
  bool several_vms_ = false;
};

// A culprit in one word, for a group's key.
[[nodiscard]] std::uint64_t pack(const Culprit& culprit);
[[nodiscard]] Culprit unpack_culprit(std::uint64_t word);
// The key of an exit that waited for nobody.
inline constexpr std::uint64_t kNoCulprit = ~std::uint64_t{0};

struct Naming {
  // Borrows what it is made of.
  Naming(const Timeline& from, const Pipeline& of) : Naming(from, of, of.processes(), of.vcpus()) {}
  Naming(const Timeline& from, const Pipeline& of, const Processes& known,
         const std::vector<VcpuTotalsOf>& all);

  const Timeline& timeline;  // its sources name reasons and threads
  const Pipeline& pipeline;
  const Names& names;
  const Processes& processes;
  std::vector<VcpuThread> threads;  // in the pipeline's order
  std::vector<Vm> vms;              // of each
  VcpuNames vcpus;

  // "stress-ng (tid 412)", "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "idle", "timer",
  // "IPI from vCPU 1", "not allowed to run: CPU quota", "unknown (record sched:sched_waking)".
  // `root`: the thread of Culprit::root, where that is one and known.
  [[nodiscard]] std::string text(const Culprit& culprit, ThreadId root = {}) const;
  // Of time in which a vCPU was ready to run: "X ran instead", "it was not allowed to run: CPU
  // quota", "its CPU was idle and had yet to take it up".
  [[nodiscard]] std::string ran_instead(const Culprit& culprit) const;
  // Of time in which it slept: "until woken by timer", "waiting for a lock, held by X".
  [[nodiscard]] std::string slept_for(const Culprit& culprit, ThreadId root = {}) const;
  // A step of either, after its part: "preempted by X", "blocked, until timer".
  [[nodiscard]] std::string step(Part part, const Culprit& culprit, ThreadId root = {}) const;
  [[nodiscard]] bool is_vcpu(ThreadId thread) const { return vcpus.vm(thread) != "?"; }
  // The VM that the thread belongs to; empty: to none, or it is not known.
  [[nodiscard]] std::string vm(ThreadId thread) const;
  // "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "stress-ng (tid 412)".
  [[nodiscard]] std::string text(ThreadId thread) const;
  // "first touch", "copy on write", "mapping removed by khugepaged (tid 31)", "not known".
  [[nodiscard]] std::string text(const PageFault::Why& why) const;
  // Who runs the vCPU: "QEMU"; "the VMM" where its names, and what it wrote, are not QEMU's.
  [[nodiscard]] std::string_view vmm(ThreadId vcpu) const;
  // The name of a thread of the host, printable; empty where no source knows it.
  [[nodiscard]] std::string comm(ThreadId thread) const;

 private:
  [[nodiscard]] bool tells_of_devices(const VmmKnowledge& vmm) const;
};

}  // namespace trapline
