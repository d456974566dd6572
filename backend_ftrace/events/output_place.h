// What the event library makes by name. Where the process is root, no link of a folder leads there
// that somebody else can have put in the way: the rules of base/folder.h, without the C++ library.
#pragma once

#include <fcntl.h>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// The folder that holds a path's last part, and that part. Of a user's path the whole is the name:
// with his rights it leads where he could go himself.
struct OutputPlace {
  UniqueFd folder;
  const char* name = "";
  [[nodiscard]] int at() const { return folder ? folder.get() : AT_FDCWD; }
};

// `place` points into `path`. False, with errno: ELOOP where a link is not followed.
[[nodiscard]] bool find_output_place(const char* path, OutputPlace& place);

// A file that is there or a new one, or a device. Never waits for a FIFO's reader; a link is not
// followed. Root's only where none but root can have made the file. `flags`: O_WRONLY and O_APPEND;
// O_NONBLOCK stays set. -1: `*reason` says why, in static memory or strerror's.
[[nodiscard]] int open_output(const char* path, int flags, const char** reason);

}  // namespace trapline
