// What vCPU threads and their VMs are called in reports.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/model/processes.h"
#include "merge/pass/selection.h"
#include "merge/source/timeline.h"

namespace trapline {

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
  std::map<ThreadId, Entry> entries_;
  bool several_vms_ = false;
};

}  // namespace trapline
