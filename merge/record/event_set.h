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
  bool stalls = false;    // what tells why a vCPU was stopped; `sched` as well
  bool faults = false;    // what tells why a page was not mapped; `sched` as well
  bool host_cpu = false;  // what the VMs' threads do with the host's CPUs; `sched` as well
  std::vector<std::string> patterns;  // SYSTEM:NAME or SYSTEM, with * and ?
};

// Returns this kernel's events for the choice, sorted, each once. Always adds those of
// RecordedBy::kAlways that the kernel has: the exact end of the user part, and the process and name
// of a new thread. The Error says which pattern matches nothing, or that there are no kvm events.
[[nodiscard]] Result<std::vector<EventName>> choose_events(const std::string& tracefs,
                                                           const EventChoice& choice);

// Returns the enabled events of an instance, sorted; `set_event` is the text of that file.
[[nodiscard]] std::vector<EventName> enabled_events(std::string_view set_event);

// Switches them on in the instance. sys_enter_ioctl gets the filter cmd == KVM_RUN, with `stalls`
// or `faults` also the answers to page faults in user space, with `host_cpu` all of kIoctls, unless
// the user chose it or all system calls.
[[nodiscard]] Result<void> enable_events(const Instance& instance,
                                         const std::vector<EventName>& events,
                                         const EventChoice& choice);

}  // namespace trapline::record
