// JSON as monitors exchange it, one value per line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "backend_ftrace/base/json_text.h"

namespace trapline {

// Returns null if the line is not JSON or nests too deep.
[[nodiscard]] inline nlohmann::json parsed_answer(const std::string& line) {
  return is_bounded_json(line) ? nlohmann::json::parse(line, nullptr, false) : nlohmann::json();
}
// Formats JSON in ASCII; replaces bytes that are not UTF-8.
[[nodiscard]] inline std::string one_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace trapline
