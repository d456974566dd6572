#include "backend_ftrace/base/quoted_text.h"

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

std::string csv_cell(std::string_view text) {
  std::string cell = "\"";
  if (!text.empty() && (text[0] == '=' || text[0] == '+' || text[0] == '@')) cell += '\'';
  for (const char c : printable(text)) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

}  // namespace trapline
