// A text as one value of JSON or CSV, with its quotes. Invalid UTF-8 and control characters are
// made visible, and what could end a script or turn the direction of text is escaped.
#pragma once

#include <string>
#include <string_view>

namespace trapline {

[[nodiscard]] std::string json_string(std::string_view text);
// RFC 4180; a text that a spreadsheet would take for a formula gets a quote in front.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace trapline
