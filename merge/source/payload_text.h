// Names and prints the events that sources make themselves: losses, guest calls, markers. Returns
// nothing for other events, which the kernel prints.
#pragma once

#include <optional>
#include <string>

#include "merge/model/event.h"

namespace trapline {

[[nodiscard]] std::optional<std::string> name_of_payload(const Event& event);
[[nodiscard]] std::optional<std::string> text_of_payload(const Event& event);

}  // namespace trapline
