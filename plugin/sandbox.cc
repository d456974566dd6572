#include "plugin/sandbox.h"

#include <string_view>

#include "backend_ftrace/base/text_file.h"
#include "plugin/accelerator.h"

namespace trapline {

bool denies_children(std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    if (option.starts_with("--")) option.remove_prefix(1);
    if (option == "-readconfig") return true;
    if (option == "-sandbox" && i + 1 < arguments.size() &&
        arguments[i + 1].find("spawn=deny") != std::string::npos)
      return true;
  }
  return false;
}

bool children_are_denied() {
  const auto status = read_text("/proc/self/status");
  const bool filtered = status && status->find("\nSeccomp:\t2\n") != std::string::npos;
  return filtered && denies_children(command_line());
}

}  // namespace trapline
