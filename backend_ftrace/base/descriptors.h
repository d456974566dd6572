// Raises the limit on open files, and closes the descriptors that a child inherits.
#pragma once

#include <cstddef>

namespace trapline {

// Raises the soft limit (RLIMIT_NOFILE) to at least `wanted`, as far as the hard limit or, for
// root, the kernel allows. Programs size their own use by the soft limit, so a child calls
// restore_open_files() before it executes one.
void allow_open_files(std::size_t wanted);
// Restores the limits that allow_open_files() raised.
void restore_open_files();

// Closes descriptor `first` and all above.
void close_all_from(int first);

}  // namespace trapline
