// Files that were opened with more rights than the process has now.
//
// A command that root starts to read recordings opens what it was told to read, gives up root's
// rights, and only then reads. What the rights it keeps suffice for is opened as ever, when it is
// wanted; hold_file() opens the rest beforehand and keeps the descriptors. open_to_read(),
// status_of() and names_in() then find a file under the path that the user named, or below it.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Opens `path` for a process that is going to give_up_root(who), reading nothing, if it could not
// be opened then. In a folder everything below counts, but no link. Files of /proc are held in any
// case: what they tell depends on who opened them.
void hold_file(const std::string& path, const std::optional<Identity>& who);

// open(2) to read, or the descriptor that is held, at its file's start; none, with errno, where
// neither can be. The descriptors of one held file share their position.
[[nodiscard]] UniqueFd open_to_read(const std::string& path, int flags = 0);
// A descriptor that is held for this path; none without errno.
[[nodiscard]] UniqueFd held_file(const std::string& path);
// As stat(2).
[[nodiscard]] std::optional<struct stat> status_of(const std::string& path);
// The names in a folder, in no order; none of one that cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace trapline
