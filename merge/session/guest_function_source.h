// A uftrace directory that was recorded outside of the guest (the plugin's) as a source:
// on the recording's clock by a relation. The events belong to the threads of the guest's vCPUs.
#pragma once

#include <memory>

#include "merge/session/guest_alignment.h"
#include "merge/source/source.h"

namespace trapline {

// `path` is the directory; what the relation's threads do not name gets the task's own number.
[[nodiscard]] Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                               const GuestAlignment& relation);

}  // namespace trapline
