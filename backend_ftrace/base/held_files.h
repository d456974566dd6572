// Files that a process opened while it had more rights.
//
// A command that root starts to read recordings opens the files that the user named, gives up
// root's rights, and only then reads. hold_file() opens beforehand, and keeps open, only files that
// the remaining rights do not suffice for; all others are opened when they are needed.
// open_to_read(), status_of() and names_in() then find a file under the path that the user named,
// or below it.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Opens `path`, without reading it, for a process that is going to call give_up_root(who) and could
// not open the path afterwards. In a folder, opens everything below it except links. Files of
// /proc are held in any case: their content depends on who opened them.
void hold_file(const std::string& path, const std::optional<Identity>& who);

// Opens a file for reading, or returns the held descriptor at the file's start; none, with errno,
// on failure. The descriptors of one held file share their position.
[[nodiscard]] UniqueFd open_to_read(const std::string& path, int flags = 0);
// Returns a duplicate of the descriptor that is held for this path; none, without errno, if none
// is.
[[nodiscard]] UniqueFd held_file(const std::string& path);
// As stat(2), for held files too.
[[nodiscard]] std::optional<struct stat> status_of(const std::string& path);
// Returns the names in a folder, unsorted; none if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace trapline
