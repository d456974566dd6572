// A text as a JSON string, with its quotes. Invalid UTF-8 and control characters are made visible,
// and what could end a script or turn the direction of text is escaped.
#pragma once

#include <string>
#include <string_view>

namespace trapline {

[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace trapline
