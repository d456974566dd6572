// How many files this process may hold open, and what a child does with those it inherits.
#pragma once

#include <cstddef>

namespace trapline {

// Raises the soft limit (RLIMIT_NOFILE) to at least `wanted`, as far as the hard limit or, for
// root, the kernel allows. Programs take the soft limit for what they may use, so a child gives it
// back before it executes one.
void allow_open_files(std::size_t wanted);
// The limits as they were before allow_open_files().
void restore_open_files();

// Closes this descriptor and all above.
void close_all_from(int first);

}  // namespace trapline
