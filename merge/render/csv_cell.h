// A text as a cell of CSV.
#pragma once

#include <string>

namespace trapline {

// RFC 4180; a text that a spreadsheet would take for a formula gets a quote in front.
[[nodiscard]] std::string csv_cell(const std::string& text);

}  // namespace trapline
