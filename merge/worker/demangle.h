#pragma once

#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {

// Answers with the demangled name of each mangled C++ or Rust name, without parameters; empty if it
// is neither, or if it stands for more text or work than a name is worth.
void demangle_names(MessageReader& request);

}  // namespace trapline::worker
