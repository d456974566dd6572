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
  // A dash alone stands for an unknown figure and is no formula.
  if (!text.empty() && text != "-" && std::string_view("=+-@").find(text[0]) != std::string::npos) {
    cell += '\'';
  }
  for (const char c : printable(text)) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

}  // namespace trapline
