// Opens a page in the user's browser, for `trapline report --open`.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"

namespace trapline::cli {

// Writes a file of its own in TMPDIR that no other user can read, and returns its name, which ends
// with `suffix`. The file stays, for the browser to read.
[[nodiscard]] Result<std::string> write_temporary(const std::string& text,
                                                  const std::string& suffix);
// Starts the desktop's own program for a page's file or address, without a shell and never as root;
// after sudo, only with the environment variables that name the display and the desktop. Returns
// why nothing was started; empty: the program was started.
[[nodiscard]] std::string open_in_browser(const std::string& page);

}  // namespace trapline::cli
