// Which process a thread belongs to, and so which VM: a VMM runs each vCPU as a thread of its own.
//
// Known from task_newtask events and from a session's list of threads; of an id that threads of two
// processes had, one after the other, no VM is known. Where neither tells, VMs are
// inferred: threads in ascending order of id, a new VM where a vCPU number repeats; such a VM is
// marked as inferred. VMMs make the vCPUs of a VM in the order of their numbers: where the numbers
// of several VMs are not 0, 1, ... one VM after the other (ids began again, VMs started at once, a
// vCPU without an event), no thread's VM is known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

// How long the CPU quotas of cgroups throttled their threads while they were recorded: cpu.stat
// before and after, of session.json. A time in which a thread was not allowed to run is a quota's
// only as far as those counts cover it.
struct CpuQuota {
  std::string cgroup;                 // "/machine/vm1"; of cgroup v1 "cpu:/machine/vm1"
  std::uint64_t throttled = 0;        // times
  std::uint64_t throttled_ns = 0;     // together, on all CPUs
  std::vector<std::int32_t> threads;  // tids in it, not in those below it
};

class CpuQuotas {
 public:
  CpuQuotas() = default;
  explicit CpuQuotas(std::vector<CpuQuota> quotas);

  // Takes `ns` of the throttled time that is left for the thread's cgroup and those above it. False
  // where less is left, and nothing taken.
  [[nodiscard]] bool take(ThreadId thread, std::uint64_t ns);
  [[nodiscard]] bool empty() const { return quotas_.empty() && known_.empty(); }
  // Those that throttled the thread's cgroup, or one above it.
  [[nodiscard]] std::vector<const CpuQuota*> of(ThreadId thread) const;
  // The recorder looked for the thread's cgroups, so that of() tells of all that throttled it.
  void set_known(ThreadId thread) { known_.insert(thread); }
  [[nodiscard]] bool knows(ThreadId thread) const { return known_.contains(thread); }

 private:
  static constexpr std::size_t kMostLevels = 64;
  std::vector<CpuQuota> quotas_;     // as they were given
  std::vector<std::uint64_t> left_;  // of each one's throttled time
  std::unordered_map<ThreadId, std::vector<std::size_t>> of_;
  std::unordered_set<ThreadId> known_;
};

class Processes {
 public:
  static constexpr std::size_t kMost = 1u << 20;

  void set(ThreadId thread, ThreadId process) {
    if (process_.size() >= kMost) return;
    const auto [known, is_new] = process_.try_emplace(thread, process);
    if (!is_new && known->second == process) return;
    known->second = process;
    ++changes_;
  }
  void on(const Event& event, const NewThread& made) {
    const ThreadId maker = of(event.thread, event.thread);
    const ThreadId process = made.same_process ? maker : made.child;
    if (of(made.child, process) != process) set_of_several(made.child);
    set(made.child, process);
    if (made.same_process) set(event.thread, maker);
  }
  // The name by which people know the process: of a virtual machine.
  void set_name(ThreadId process, std::string name) { names_[process] = std::move(name); }
  [[nodiscard]] std::string name_of(ThreadId process) const {
    const auto found = names_.find(process);
    return found == names_.end() ? std::string() : found->second;
  }
  [[nodiscard]] bool has_several_names() const { return names_.size() > 1; }
  // The CPU quotas of the threads' cgroups, as far as they throttled them.
  void set_quotas(CpuQuotas quotas) { quotas_ = std::move(quotas); }
  [[nodiscard]] const CpuQuotas& quotas() const { return quotas_; }
  // The process of which alone switches between threads were recorded, where it was one.
  void set_selected(ThreadId process) { selected_ = process; }
  [[nodiscard]] const std::optional<ThreadId>& selected() const { return selected_; }
  // The recorder, whose threads' switches among themselves are left out.
  void set_recorder(ThreadId process) { recorder_ = process; }
  [[nodiscard]] const std::optional<ThreadId>& recorder() const { return recorder_; }
  // What the other one knows as well; where both know a thread, the other one is right.
  void merge(const Processes& other) {
    for (const auto& [thread, process] : other.process_) set(thread, process);
    for (const auto& [process, name] : other.names_) set_name(process, name);
    if (!other.quotas_.empty()) quotas_ = other.quotas_;
    if (other.selected_) selected_ = other.selected_;
    if (other.recorder_) recorder_ = other.recorder_;
  }
  // The thread's process, or `otherwise`.
  [[nodiscard]] ThreadId of(ThreadId thread, ThreadId otherwise) const {
    const auto found = process_.find(thread);
    return found != process_.end() ? found->second : otherwise;
  }
  // Tells whether of() may say something else than before.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] bool knows(ThreadId thread) const { return process_.contains(thread); }
  // A thread of another process had the same id before.
  void set_of_several(ThreadId thread) {
    if (of_several_.size() < kMost) of_several_.insert(thread);
  }
  [[nodiscard]] bool is_of_several(ThreadId thread) const { return of_several_.contains(thread); }

 private:
  std::unordered_map<ThreadId, ThreadId> process_;
  std::unordered_set<ThreadId> of_several_;
  std::uint64_t changes_ = 0;
  std::map<ThreadId, std::string> names_;  // by process
  CpuQuotas quotas_;
  std::optional<ThreadId> selected_, recorder_;
};

struct VcpuThread {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
};

// "web01 (1234)", "1234" without a name.
[[nodiscard]] inline std::string vm_text(const std::string& id, const std::string& given) {
  return given.empty() ? id : given + " (" + id + ")";
}

struct Vm {
  ThreadId process{};  // the lowest thread where the process is inferred
  bool inferred = false;
  bool known = true;       // false: `process` is the thread itself, of a VM that may have others
  std::string given = {};  // by its owner; empty: it has none
  // "1234", "~1234" for an inferred one, "?1234" for one that is not known.
  [[nodiscard]] std::string id() const {
    return (!known     ? "?"
            : inferred ? "~"
                       : "") +
           std::to_string(static_cast<std::int32_t>(process));
  }
  [[nodiscard]] std::string text() const { return vm_text(id(), given); }
};
// The VM of each thread, in the order of `threads`.
[[nodiscard]] std::vector<Vm> find_vms(const std::vector<VcpuThread>& threads,
                                       const Processes& processes);

}  // namespace trapline
