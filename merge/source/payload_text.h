// The name and the text of what sources of a kernel's events make of its records themselves:
// losses, guest calls, markers. Nothing of other events: those are the kernel's own.
#pragma once

#include <optional>
#include <string>

#include "merge/model/event.h"

namespace trapline {

[[nodiscard]] std::optional<std::string> name_of_payload(const Event& event);
[[nodiscard]] std::optional<std::string> text_of_payload(const Event& event);

}  // namespace trapline
