// Recognises texts and archives that are not recordings, and says what to use instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

// Returns the Error for a text or archive that is known not to be a recording; nullopt for other
// files. `head`: the first bytes of the file.
[[nodiscard]] std::optional<Error> refusal_of(const std::string& path, std::string_view head);

}  // namespace trapline
