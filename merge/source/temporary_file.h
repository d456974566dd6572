// A file without a name, for what memory is not to hold: in TMPDIR, else in /var/tmp.
#pragma once

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// For messages: where room is needed.
[[nodiscard]] const char* temporary_folder();
// Not valid, and errno, where it cannot be made.
[[nodiscard]] UniqueFd make_temporary_file();

}  // namespace trapline
