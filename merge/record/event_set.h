// Which kernel events a recording has.
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
  bool stalls = false;                // what tells why a vCPU was stopped; `sched` as well
  bool faults = false;                // what tells why a page was not mapped; `sched` as well
  std::vector<std::string> patterns;  // SYSTEM:NAME or SYSTEM, with * and ?
};

// Returns the events of this kernel that the choice stands for, sorted, each once. Those of
// RecordedBy::kAlways are there where the kernel has them: the exact end of the user part, and the
// process and name of a new thread. An Error says which pattern matches nothing, or that there are
// no kvm events at all.
[[nodiscard]] Result<std::vector<EventName>> choose_events(const std::string& tracefs,
                                                           const EventChoice& choice);

// Those that are on in an instance, sorted: `set_event` is its file's text.
[[nodiscard]] std::vector<EventName> enabled_events(std::string_view set_event);

// Switches them on in the instance. sys_enter_ioctl gets the filter cmd == KVM_RUN, with `stalls`
// or `faults` also the answers to page faults in user space, unless the user chose it or all system
// calls.
[[nodiscard]] Result<void> enable_events(const Instance& instance,
                                         const std::vector<EventName>& events,
                                         const EventChoice& choice);

}  // namespace trapline::record
