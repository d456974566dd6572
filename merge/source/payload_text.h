// Names and prints losses and guest calls, which have no format of the kernel's; prints markers.
// The functions return nullopt for other events: the source prints those.
#pragma once

#include <optional>
#include <string>

#include "merge/model/event.h"

namespace trapline {

[[nodiscard]] std::optional<std::string> name_of_payload(const Event& event);
[[nodiscard]] std::optional<std::string> text_of_payload(const Event& event);

}  // namespace trapline
