// JSON as monitors exchange it, a line each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "backend_ftrace/base/json_text.h"

namespace trapline {

// Nothing where it is no JSON, or nests too deep.
[[nodiscard]] inline nlohmann::json parsed_answer(const std::string& line) {
  return is_bounded_json(line) ? nlohmann::json::parse(line, nullptr, false) : nlohmann::json();
}
// In ASCII; bytes that are no UTF-8 are replaced.
[[nodiscard]] inline std::string one_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace trapline
