// Opens the files that the event library writes. As root, follows no link that another user can
// have made: the rules of base/folder.h, without the C++ library.
#pragma once

#include <fcntl.h>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// A path's last part and the folder that holds it. For users other than root, `name` is the whole
// path: with the user's rights it leads only where the user could go.
struct OutputPlace {
  UniqueFd folder;
  const char* name = "";
  [[nodiscard]] int at() const { return folder ? folder.get() : AT_FDCWD; }
};

// Finds the place of a path; `place` points into `path`. False, with errno; ELOOP for a link that
// must not be followed.
[[nodiscard]] bool find_output_place(const char* path, OutputPlace& place);

// Opens a file, a device, or makes a new file. Never waits for a FIFO's reader and follows no link.
// As root, opens only files that root alone can have made. `flags`: O_WRONLY and O_APPEND;
// O_NONBLOCK stays set. On failure returns -1 and sets `*reason` to static or strerror's memory.
[[nodiscard]] int open_output(const char* path, int flags, const char** reason);

}  // namespace trapline
