// Places sources on the timeline's clock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "merge/clock/alignment.h"
#include "merge/session/guest_alignment.h"
#include "merge/source/source.h"

namespace trapline {

// Places a source on the timeline's clock, unless its own certainly is the timeline's.
[[nodiscard]] std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                                 const clocks::AlignedSource& aligned,
                                                 const std::string& timeline_clock);

// Places a uftrace directory that was recorded outside the guest (by the plugin) as a source on the
// host's clock. Its events get the threads of the guest's vCPUs; tasks for which `relation` has no
// thread keep their own number.
[[nodiscard]] std::unique_ptr<Source> with_guest_calls(std::unique_ptr<Source> source,
                                                       const GuestAlignment& relation);

// Places a source with guest calls: a call on a vCPU of `threads` gets the vCPU's thread, and each
// task keeps a call stack of its own.
[[nodiscard]] std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                                        std::map<std::int32_t, ThreadId> threads);

// Places a recording made inside a guest (by uftrace or trace-cmd) as a source on its host's clock.
//
// Its events keep their meaning and contain their guest (Event::machine): a switch of the guest's
// scheduler is not one of the host's. Event::thread is the host's thread of the vCPU that ran the
// event's task; 0 if not known, because no schedule event shows the task's CPU. Event::task is the
// guest's thread. Threads inside a payload are the guest's.
[[nodiscard]] std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                                           const GuestAlignment& alignment,
                                                           MachineId machine);
// Places a guest's recording whose times are on its host's clock already (trace-cmd's TIME_SHIFT).
// Its events get `machine`, and the host's thread of their vCPU from `threads`, which is by vCPU.
[[nodiscard]] std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                                         std::map<std::int32_t, ThreadId> threads,
                                                         MachineId machine);

}  // namespace trapline
