// Kernel threads that work for a VMM's process and carry its number in their names: "kvm-pit/110"
// raises the PIT's interrupts, "vhost-110" serves a device's queues.
#pragma once

#include <map>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "merge/model/event.h"
#include "merge/model/processes.h"

namespace trapline {

// The thread that the name tells, of the process that made it; ThreadId{} for other names.
[[nodiscard]] inline ThreadId maker_of_kernel_thread(std::string_view comm) {
  for (const std::string_view prefix : {"kvm-pit/", "vhost-"}) {
    if (!comm.starts_with(prefix)) continue;
    comm.remove_prefix(prefix.size());
    std::int32_t number = 0;
    const bool whole = take_number(comm, number) && comm.empty() && number > 0;
    return whole ? ThreadId{number} : ThreadId{};
  }
  return {};
}

// The process whose work a thread does; kernel threads are learned as they are switched to.
class WorkedFor {
 public:
  // Whether it may know more than before.
  bool on(const SchedSwitch& sched) {
    const ThreadId maker = maker_of_kernel_thread(sched.next_comm);
    const bool learns = maker != ThreadId{} && makers_.size() < kMost;
    if (learns) makers_[sched.next] = maker;
    return learns;
  }
  [[nodiscard]] ThreadId process(ThreadId thread, const Processes& processes) const {
    if (makers_.empty()) return processes.of(thread, {});
    // A kernel thread is a process of its own, so its maker comes first.
    const auto made = makers_.find(thread);
    return processes.of(made == makers_.end() ? thread : made->second, {});
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::map<ThreadId, ThreadId> makers_;
};

}  // namespace trapline
