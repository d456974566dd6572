// Chooses and enables the kernel events of a recording.
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/instance.h"
#include "merge/record/trace_dat_writer.h"

namespace trapline::record {

struct EventChoice {
  bool kvm = true;
  bool sched = false;
  bool irq = false;
  bool syscalls = false;
  bool block = false;
  bool stalls = false;    // events that show why a vCPU stopped; includes those of `sched`
  bool faults = false;    // events that show why a page was not mapped; includes `sched`
  bool host_cpu = false;  // events that show what VMs use the host's CPUs for; includes `sched`
  std::vector<std::string> patterns;  // SYSTEM:NAME or SYSTEM, with * and ?
};

// Returns this kernel's events for the choice, sorted, each once. Always adds the events of
// RecordedBy::kAlways, which give the exact end of an exit's user part, and the process and name of
// a new thread. The Error says which pattern matches nothing, or that there are no kvm events.
[[nodiscard]] Result<std::vector<EventName>> choose_events(const std::string& tracefs,
                                                           const EventChoice& choice);

// Returns the enabled events of an instance, sorted; `set_event` is the text of that file.
[[nodiscard]] std::vector<EventName> enabled_events(std::string_view set_event);

// Enables the events in the instance. Unless a pattern of the user selects sys_enter_ioctl, that
// event gets a filter: only KVM_RUN, with `stalls` or `faults` also the ioctls that answer
// userfaultfd or change a VM's memory, with `host_cpu` all of kIoctls.
[[nodiscard]] Result<void> enable_events(const Instance& instance,
                                         const std::vector<EventName>& events,
                                         const EventChoice& choice);

}  // namespace trapline::record
