// What ends an instance when the process that made it dies of a signal that it cannot see.
//
// It is there before the instance, which records from its first moment and takes the kernel a while
// to make: a kill meanwhile must not leave it.
//
//   maker ──── reads a pipe that nobody writes into ────── watchdog, asleep at the other end
//     │ killed, crashed: the kernel closes its end ──────────> tracing off, instance removed, end
//     │ ends, but a command still holds the marker: as killed ─> tries for an hour
//     │ ends well: removes the instance ─────────────────────> killed
//
// Guarantees: in a session of its own, deaf to every signal that can be ignored, so that what ends
// the maker does not end it; holds no file but the pipe, and works in /; costs nothing while the
// maker lives. What kills both (SIGKILL to a whole cgroup) leaves the instance to
// remove_leftovers().
#pragma once

#include <string>

#include "backend_ftrace/base/child.h"

namespace trapline::record {

// For the instance that this process, which has one thread, is about to make, and which is not
// there; it ends with the object.
[[nodiscard]] Result<Child> start_watchdog(const std::string& tracefs, const std::string& name);

}  // namespace trapline::record
