#include "merge/export/json_text.h"

#include "backend_ftrace/base/text.h"

namespace trapline {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') json += '\\';
    if (c == '<') {
      json += "\\u003c";
      continue;
    }
    json += c;
  }
  json += '"';
  return json;
}

}  // namespace trapline
