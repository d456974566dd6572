// Root's rights, of which a command that only reads recordings needs no more than to open them.
//
//   sudo   opens what was named ──> is the user who called sudo, for good ──> reads, writes
//   root   the same             ──> is root without a capability, by Landlock without other files
//
// What a recording's bytes name is opened after that.
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::cli {

struct Needs {
  std::vector<std::string> inputs;   // files and folders that were named
  std::vector<std::string> outputs;  // "-" and "" are the standard output
  bool browser = false;              // xdg-open is started
};

// Does nothing for a user. Errors: an output that may not be written with the rights that are kept;
// kRuntime: the kernel does not let go of root's rights.
[[nodiscard]] Result<void> give_up_root(const Needs& needs);
// Whether give_up_root() made this process another user's.
[[nodiscard]] bool is_no_longer_root();

}  // namespace trapline::cli
