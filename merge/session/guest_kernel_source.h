// What was recorded inside a guest (by uftrace or trace-cmd) as a source on its host's clock.
//
// Its events belong to the host's thread of the vCPU that made them; where that is not known (a
// task of which no schedule event tells the CPU) to a thread whose number is that of the guest's
// task, negative. What is no function call is the guest kernel's own: it is shown, and correlated
// with nothing of the host's.
#pragma once

#include <memory>
#include <string>

#include "merge/session/guest_alignment.h"
#include "merge/source/source.h"

namespace trapline {

[[nodiscard]] std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                                           const GuestAlignment& relation);

}  // namespace trapline
