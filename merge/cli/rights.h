// Gives up root's rights, which a command that only reads recordings needs only to open them.
//
//   sudo   opens what was named ──> is the user who called sudo, for good ──> reads, writes
//   root   the same             ──> is root without a capability, by Landlock without other files
//
// Files that a recording's content names are opened only after root's rights are given up.
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::cli {

struct Needs {
  std::vector<std::string> inputs;   // files and folders that the user named
  std::vector<std::string> outputs;  // "-" and "" are the standard output
  bool browser = false;              // xdg-open is started
};

// Does nothing for users other than root. Errors: an output cannot be written with the remaining
// rights; kRuntime: the kernel does not let the process give up root's rights.
[[nodiscard]] Result<void> give_up_root(const Needs& needs);
// Returns whether give_up_root() made this another user's process.
[[nodiscard]] bool is_no_longer_root();

}  // namespace trapline::cli
