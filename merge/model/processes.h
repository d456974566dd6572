// Finds the process of a thread and so its VM, since a VMM runs each vCPU as a thread.
//
// A process is its first thread. The process of a thread is known from task_newtask events and from
// a session's list of threads, which has ids alone: the list tells of the thread of which no event
// tells, and means the process that had the id when that thread was there. The thread's process is
// not known if an event contradicts the list, if an event tells of a later thread that the list may
// mean, or if the thread may be of several processes that had the id. A VM's name is an id's too;
// it is given if one process with the id can be the VM.
//
// Threads in neither the events nor the list are assigned to inferred VMs: in ascending order of
// id, a new VM begins when a vCPU number repeats; such a VM is marked as inferred. VMMs make the
// vCPUs of a VM in the order of their numbers. If the numbers are not 0, 1, ... for one VM after
// the other (ids began again, VMs started at once, a vCPU without an event), no thread's VM is
// known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

// How long one cgroup's CPU quota throttled threads during the recording: the difference of
// cpu.stat before and after, from session.json. Time in which a thread was not allowed to run
// counts for quotas only as far as these totals cover it.
struct CpuQuota {
  std::string cgroup;                 // "/machine/vm1"; for cgroup v1 "cpu:/machine/vm1"
  std::uint64_t throttled = 0;        // number of times that the quota throttled
  std::uint64_t throttled_ns = 0;     // ns, the sum over all CPUs
  std::vector<std::int32_t> threads;  // tids in this cgroup, without those in cgroups below
};

class CpuQuotas {
 public:
  CpuQuotas() = default;
  explicit CpuQuotas(std::vector<CpuQuota> quotas);

  // Takes `ns` from the throttled time that is left for the thread's cgroup and the cgroups above.
  // If less than `ns` is left, takes nothing and returns false.
  [[nodiscard]] bool take(ThreadId thread, std::uint64_t ns);
  [[nodiscard]] bool empty() const { return quotas_.empty() && known_.empty(); }
  // Returns the quotas that throttled the thread's cgroup or one above it.
  [[nodiscard]] std::vector<const CpuQuota*> of(ThreadId thread) const;
  // Notes that the recorder looked for the thread's cgroups, so that of() returns everything that
  // throttled the thread.
  void set_known(ThreadId thread) { known_.insert(thread); }
  [[nodiscard]] bool knows(ThreadId thread) const { return known_.contains(thread); }
  // Takes that what the recorder said of `from` is about `to`, a later thread with the same id.
  void move(ThreadId from, ThreadId to);

 private:
  static constexpr std::size_t kMostLevels = 64;
  std::vector<CpuQuota> quotas_;     // in the order given
  std::vector<std::uint64_t> left_;  // ns of each quota's throttled time that are left
  std::unordered_map<ThreadId, std::vector<std::size_t>> of_;
  std::unordered_set<ThreadId> known_;
};

class Processes {
 public:
  static constexpr std::size_t kMost = 1u << 20;

  // Takes what a list says of the first thread that had the id.
  void set(ThreadId thread, ThreadId process) {
    if (tell(thread, process) && thread != process) listed_[process].push_back(thread);
  }
  // Takes task_newtask. A process is its first thread, so that processes which had one id, one
  // after the other, are told apart as threads are.
  void on(const Event& event, const NewThread& made) {
    const ThreadId maker = of(event.thread, event.thread);
    const ThreadId process = made.same_process ? maker : made.child;
    if (life_of(made.child) != 0) {
      const ThreadId first{tid_of(made.child)};
      const bool may_mean_child = tid_of(of(first, {})) == tid_of(process);
      if (knows(first) && may_mean_child && !born_.contains(first) && !has_threads(first))
        set_of_several(first);
      if (!made.same_process) now_[first] = made.child;
    } else {
      if (!born_.contains(made.child)) of_several_.erase(made.child);
      if (!born_.contains(made.child) && tid_of(of(made.child, process)) != tid_of(process))
        set_of_several(made.child);
      if (born_.size() < kMost) born_[made.child].was_made = true;
    }
    // The last number of a life is that of several threads.
    if (life_of(made.child) == kLastLife) set_of_several(made.child);
    tell(made.child, process);
    if (!made.same_process) return;
    tell(event.thread, maker);
    const bool is_listed = maker != event.thread && !born_.contains(event.thread);
    if (!is_listed && born_.size() < kMost) born_[event.thread].has_threads = true;
  }
  // Takes that a new process has the id of a listed one; `is_seen` tells which threads had an event
  // before. A listed thread that had none may be of each process with the id so far: of() returns
  // the last.
  using IsSeen = std::function<bool(ThreadId)>;
  void use_again(ThreadId now, const IsSeen& is_seen);
  // Returns whether the process has another thread than its first one: it made one in an event, or
  // a list tells of one, for which `is_seen` holds, if given.
  [[nodiscard]] bool has_threads(ThreadId process, const IsSeen& is_seen = {}) const;
  // Returns whether an event told that the process was made, and so of each thread that it has.
  [[nodiscard]] bool was_made(ThreadId process) const {
    const auto found = born_.find(process);
    return life_of(process) != 0 || (found != born_.end() && found->second.was_made);
  }
  // Returns the last process so far that has the kernel's id.
  [[nodiscard]] ThreadId now(ThreadId id) const {
    const auto found = now_.find(id);
    return found == now_.end() ? id : found->second;
  }
  // Sets the name by which people know a virtual machine's process. If several processes had its
  // id, name_of() returns the name for each.
  void set_name(ThreadId process, std::string name) { names_[process] = std::move(name); }
  [[nodiscard]] std::string name_of(ThreadId process) const {
    const auto found = names_.find(ThreadId{tid_of(process)});
    return found == names_.end() ? std::string() : found->second;
  }
  [[nodiscard]] bool has_several_names() const { return names_.size() > 1; }
  // The CPU quotas that throttled the threads' cgroups.
  CpuQuotas quotas;
  // The process to whose threads the recording of thread switches was limited, and the recorder's
  // process. The recorder leaves out the switches among its own threads.
  std::optional<ThreadId> selected, recorder;
  // A memory slot that the VM had before or after the recording; without a name if not both.
  struct Slot {
    std::uint64_t first = 0, last = 0;
    std::string name;
    std::optional<std::uint64_t> offset = std::nullopt;  // the place of `first` in QEMU's memory
  };
  void set_slots(ThreadId process, std::vector<Slot> slots);
  // Returns the name of all memory slots that have some of these addresses; empty: not known, or
  // their names differ.
  [[nodiscard]] std::string slot_of(ThreadId vm, std::uint64_t first, std::uint64_t last) const;
  // Returns the slot that has the address; nullptr: not known.
  [[nodiscard]] const Slot* slot_at(ThreadId vm, std::uint64_t address) const;
  // Sets how long the kernel says that the thread ran while it was recorded (schedstat).
  void set_counted(ThreadId thread, std::uint64_t ns) { counted_[thread] = ns; }
  [[nodiscard]] std::optional<std::uint64_t> counted(ThreadId thread) const {
    const auto found = counted_.find(thread);
    return found == counted_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] const std::map<ThreadId, std::uint64_t>& counted() const { return counted_; }
  void forget_counted() {
    counted_.clear();
    irq_time_apart.reset();
  }
  // True if the times of set_counted() exclude interrupts; nullopt: not known.
  std::optional<bool> irq_time_apart;
  // Adds everything that `other` knows; if both know a thread's process, `other` is right. Of two
  // processes with one id it may have only the id.
  void merge(const Processes& other) {
    for (const auto& [thread, process] : other.process_)
      if (tid_of(of(thread, {})) != tid_of(process)) set(thread, process);
    for (const auto& [process, name] : other.names_) set_name(process, name);
    if (!other.quotas.empty()) quotas = other.quotas;
    if (other.selected) selected = other.selected;
    if (other.recorder) recorder = other.recorder;
    counted_.insert(other.counted_.begin(), other.counted_.end());
    slots_.insert(other.slots_.begin(), other.slots_.end());
    if (other.irq_time_apart) irq_time_apart = other.irq_time_apart;
  }
  // Returns the thread's process, or `otherwise` if it is not known.
  [[nodiscard]] ThreadId of(ThreadId thread, ThreadId otherwise) const {
    const auto found = process_.find(thread);
    return found != process_.end() ? found->second : otherwise;
  }
  // Returns a number that changes whenever of() may return something else than before.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] bool knows(ThreadId thread) const { return process_.contains(thread); }
  // Notes that the thread may be of another process than of() says.
  void set_of_several(ThreadId thread) {
    if (of_several_.size() < kMost) of_several_.insert(thread);
  }
  [[nodiscard]] bool is_of_several(ThreadId thread) const { return of_several_.contains(thread); }

 private:
  bool tell(ThreadId thread, ThreadId process);
  std::unordered_map<ThreadId, ThreadId> process_;
  std::unordered_set<ThreadId> of_several_;
  struct Told {
    bool was_made = false, has_threads = false;  // has_threads: another thread of its process
  };
  std::unordered_map<ThreadId, Told> born_;                     // threads whose process events told
  std::unordered_map<ThreadId, std::vector<ThreadId>> listed_;  // by process; of() may be another
  std::unordered_map<ThreadId, ThreadId> now_;  // by the kernel's id, if several processes had it
  std::uint64_t changes_ = 0;
  std::map<ThreadId, std::string> names_;  // by process
  std::map<ThreadId, std::uint64_t> counted_;
  std::map<ThreadId, std::vector<Slot>> slots_;
};

struct VcpuThread {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
};

// Formats "web01 (1234)", or "1234" without a name.
[[nodiscard]] inline std::string vm_text(const std::string& id, const std::string& given) {
  return given.empty() ? id : given + " (" + id + ")";
}

struct Vm {
  ThreadId process{};  // if the process is inferred: the lowest thread id
  bool inferred = false;
  bool known = true;       // false: `process` is the thread itself; its VM may have other threads
  std::string given = {};  // name given by the owner; empty: none
  bool by_name = false;    // text() is the name without the id: runs are compared by name
  // `earlier`: how many processes had this one's id before it and had threads, so that they may be
  // VMs. `is_alone`: no such process had the id before or after it.
  std::uint32_t earlier = 0;
  bool is_alone = true;
  // Formats "1234", "1234 #2" for the second VM whose process had this id, "~1234" for an inferred
  // VM, "?1234" for one that is not known.
  [[nodiscard]] std::string id() const {
    if (!inferred) return tid_text(thread_of(tid_of(process), earlier));
    return (known ? "~" : "?") + tid_text(process);
  }
  [[nodiscard]] std::string text() const {
    return by_name && !given.empty() ? given : vm_text(id(), given);
  }
};
// Returns the VM of each thread, in the order of `threads`.
[[nodiscard]] std::vector<Vm> find_vms(const std::vector<VcpuThread>& threads,
                                       const Processes& processes);

}  // namespace trapline
