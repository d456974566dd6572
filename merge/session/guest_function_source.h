// A uftrace directory that was recorded outside of the guest (the plugin's) as a source:
// on the recording's clock by a relation. The events belong to the threads of the guest's vCPUs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "merge/session/guest_alignment.h"
#include "merge/source/source.h"

namespace trapline {

// `path` is the directory; what the relation's threads do not name gets the task's own number.
[[nodiscard]] Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                               const GuestAlignment& relation);

// Calls of these vCPUs become events of their threads, each task with a stack of its own.
[[nodiscard]] std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                                        std::map<std::int32_t, ThreadId> threads);

}  // namespace trapline
