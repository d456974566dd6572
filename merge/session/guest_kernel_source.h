// What was recorded inside a guest (by uftrace or trace-cmd) as a source on its host's clock.
//
// Its events keep their meaning and say which guest they are of (Event::machine): a switch of the
// guest's scheduler is no switch of the host's. `thread` is the host's thread of the vCPU that ran
// the event's task, 0 where that is not known (a task of which no schedule event tells the CPU);
// `task` is the guest's own. Threads inside a payload are the guest's.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "merge/session/guest_alignment.h"
#include "merge/source/source.h"

namespace trapline {

[[nodiscard]] std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                                           const GuestAlignment& alignment,
                                                           MachineId machine);
// One whose times are its host's already (trace-cmd's TIME_SHIFT).
[[nodiscard]] std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                                         std::map<std::int32_t, ThreadId> threads,
                                                         MachineId machine);

}  // namespace trapline
