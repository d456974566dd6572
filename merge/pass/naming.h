// The names of threads, exits and culprits, for what a pass has seen so far. A vCPU without an exit
// so far is named as a thread.
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

// The words for what an exit was, the same in every report, timeline and export.

// Returns "port 0x402 write", "mmio 0xfed000f0 read", "msr 0x6e0 write", "cpuid 0x40000000",
// "sysreg S3_0_C12_C11_5 write", "cr0 write", "hypercall 0x5", "page-fault 0x1000"; "-" without a
// detail.
[[nodiscard]] std::string detail_text(const KvmDetail& detail);
// key_of() returns "first-touch"; how_text() returns "madvise(MADV_DONTNEED)", "dirty ring", or
// empty if not known.
[[nodiscard]] std::string_view key_of(FaultCause cause);
[[nodiscard]] std::string how_text(const PageFault::Why& why);
// Returns "guest", "guest enters nested guest", "nested guest", "nested guest, passed on".
[[nodiscard]] std::string_view nested_text(NestedLevel level);
// Returns the name of a thread of the host, from whichever kernel's source has it; else empty.
[[nodiscard]] std::string host_comm(const Timeline& timeline, ThreadId thread);
// Returns the name of a device, a guest function or an event; "-" for none.
[[nodiscard]] std::string name_or_dash(const Names& names, NameId name);

// The names of vCPU threads and their VMs in reports.

// Returns the threads of `vcpus`, in the same order. A thread's vCPU number is the one in its
// events, else the one in its name.
[[nodiscard]] std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                                   const Timeline& timeline);
// Returns the name of a source's thread.
using CommOf = std::function<std::string(std::size_t source, ThreadId thread)>;
// Returns the threads of `vcpus`, with names from `comm` instead of a timeline.
[[nodiscard]] std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                                   const CommOf& comm);

class VcpuNames {
 public:
  VcpuNames() = default;
  // `vms` has the VM of each thread, from find_vms().
  VcpuNames(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms);

  // Returns "web01 (1234)", "1234" without a name, "~1234" for an inferred VM, "?" for a thread
  // that is not a vCPU.
  [[nodiscard]] std::string vm(ThreadId thread) const;
  // vm_id() returns "1234", without the name; vm_name() returns only the name, empty if there is
  // none.
  [[nodiscard]] std::string vm_id(ThreadId thread) const;
  [[nodiscard]] std::string vm_name(ThreadId thread) const;
  // Returns "vCPU 0", or "tid 117" if its number is not known; with_vm: "VM 1234 vCPU 0" if there
  // are several VMs.
  [[nodiscard]] std::string vcpu(ThreadId thread, bool with_vm) const;
  // Returns the number of the thread's vCPU; kNoVcpu if it is not known.
  [[nodiscard]] std::int32_t number(ThreadId thread) const;
  // Returns whether the filter selects the thread; false for a thread that is not a vCPU.
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

// Packs a culprit into one word, for a group's key.
[[nodiscard]] std::uint64_t pack(const Culprit& culprit);
[[nodiscard]] Culprit unpack_culprit(std::uint64_t word);
// The packed culprit of an exit that waited for nothing.
inline constexpr std::uint64_t kNoCulprit = ~std::uint64_t{0};

struct Naming {
  // Borrows the arguments.
  Naming(const Timeline& from, const Pipeline& of) : Naming(from, of, of.processes(), of.vcpus()) {}
  Naming(const Timeline& from, const Pipeline& of, const Processes& known,
         const std::vector<VcpuTotalsOf>& all);

  const Timeline& timeline;  // its sources name reasons and threads
  const Pipeline& pipeline;
  const Names& names;
  const Processes& processes;
  std::vector<VcpuThread> threads;  // in the pipeline's order
  std::vector<Vm> vms;              // the VM of each of `threads`
  VcpuNames vcpus;

  // Returns "stress-ng (tid 412)", "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "idle", "timer", "IPI
  // from vCPU 1", "not allowed to run: CPU quota", "unknown (record sched:sched_waking)". `root`:
  // the thread of Culprit::root, if that is a thread and known.
  [[nodiscard]] std::string text(const Culprit& culprit, ThreadId root = {}) const;
  // For time in which a vCPU was ready to run: returns "X ran instead", "it was not allowed to run:
  // CPU quota", "its CPU was idle and had yet to take it up".
  [[nodiscard]] std::string ran_instead(const Culprit& culprit) const;
  // For time in which a vCPU slept: returns "until woken by timer", "waiting for a lock, held by
  // X".
  [[nodiscard]] std::string slept_for(const Culprit& culprit, ThreadId root = {}) const;
  // For a vCPU's wait in this part of an exit: returns "preempted by X", "blocked, until timer".
  [[nodiscard]] std::string step(Part part, const Culprit& culprit, ThreadId root = {}) const;
  [[nodiscard]] bool is_vcpu(ThreadId thread) const { return vcpus.vm(thread) != "?"; }
  // Returns the id of the VM that the thread belongs to; empty: none, or not known.
  [[nodiscard]] std::string vm(ThreadId thread) const;
  // Returns "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "stress-ng (tid 412)".
  [[nodiscard]] std::string text(ThreadId thread) const;
  // Returns "first touch", "copy on write", "mapping removed by khugepaged (tid 31)", "not known".
  [[nodiscard]] std::string text(const PageFault::Why& why) const;
  // Returns "QEMU" if the names or events of the vCPU's process are QEMU's, else "the VMM".
  [[nodiscard]] std::string_view vmm(ThreadId vcpu) const;
  // Returns the printable name of a thread of the host; empty if no source knows it.
  [[nodiscard]] std::string comm(ThreadId thread) const;

 private:
  [[nodiscard]] bool tells_of_devices(const Vmm& vmm) const;
};

}  // namespace trapline
