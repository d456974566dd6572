// Quotes a text as one value of JSON or CSV. Invalid UTF-8 and control characters are made visible;
// anything that could end a script or change the direction of text is escaped.
#pragma once

#include <string>
#include <string_view>

namespace trapline {

[[nodiscard]] std::string json_string(std::string_view text);
// Quotes as RFC 4180 says. A text that a spreadsheet would take for a formula gets an apostrophe in
// front.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace trapline
