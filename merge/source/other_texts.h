// Texts and archives that are no recording, and what to give instead of each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

// `head`: the first bytes of the file, as many as are looked at.
[[nodiscard]] std::optional<Error> refusal_of(const std::string& path, std::string_view head);

}  // namespace trapline
