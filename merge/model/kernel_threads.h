// The kernel's threads that work for a process and have its id in their names (linux/kthread.h;
// vhost_worker_create(), kvm_create_pit(), kvm_vm_create_worker_thread()).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "merge/model/event.h"

namespace trapline {

// Returns the process in a thread's name, "vhost-229", "kvm-pit/229"; 0: there is none.
[[nodiscard]] inline ThreadId process_in_name(std::string_view comm) {
  for (const std::string_view kind : {"vhost-", "kvm-pit/", "kvm-nx-lpage-recovery-"}) {
    std::int32_t process = 0;
    if (!comm.starts_with(kind)) continue;
    std::string_view rest = comm.substr(kind.size());
    if (take_number(rest, process) && rest.empty() && process > 0) return ThreadId{process};
  }
  return ThreadId{};
}

}  // namespace trapline
