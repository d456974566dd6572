#include "backend_ftrace/base/message.h"

#include <fmt/format.h>

#include <cstdio>

#include "backend_ftrace/base/text.h"

namespace trapline {

void say(std::string_view program, std::string_view message) {
  const std::string line = fmt::format("{}: {}\n", program, printable(message));
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace trapline
