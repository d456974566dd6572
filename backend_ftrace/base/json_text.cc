#include "backend_ftrace/base/json_text.h"

namespace trapline {

bool is_bounded_json(std::string_view text) {
  std::size_t depth = 0, values = 1;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if ((c == '[' || c == '{') && ++depth > kDeepestJson) return false;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == ',' && ++values > kMostJsonValues) return false;
  }
  return true;
}

}  // namespace trapline
