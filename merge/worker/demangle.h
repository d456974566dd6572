#pragma once

#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {

// Answers with a C++ or Rust name, without its parameters, for each mangled one; empty where it is
// neither, or stands for more text or work than a name is worth.
void demangle_names(MessageReader& request);

}  // namespace trapline::worker
