#include "tests/support/format_text.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"

namespace trapline::test {
namespace {

constexpr std::size_t kMostFields = 512;
constexpr std::size_t kMostTables = 16;
constexpr std::size_t kMostNames = 4096;  // in one table

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Removes "KEY:VALUE;" from the front of the line and returns the value without blanks around it.
std::optional<std::string_view> take_value(std::string_view& line, std::string_view key) {
  line = trimmed(line);
  if (!line.starts_with(key)) return std::nullopt;
  const auto end = line.find(';');
  if (end == std::string_view::npos) return std::nullopt;
  const auto value = trimmed(line.substr(key.size(), end - key.size()));
  line.remove_prefix(end + 1);
  return value;
}

std::optional<std::uint32_t> small_number(std::optional<std::string_view> text) {
  const auto number = text ? parse_number(*text) : std::nullopt;
  if (!number || *number > INT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

// Parses a declaration: "unsigned long args[6]", "__data_loc char[] name", "char
// comm[TASK_COMM_LEN]".
FormatField declared(std::string_view declaration) {
  FormatField field;
  field.array = declaration.find('[') != std::string_view::npos;
  if (declaration.ends_with(']')) declaration = declaration.substr(0, declaration.rfind('['));
  declaration = trimmed(declaration);
  std::size_t start = declaration.size();
  while (start > 0 && is_word(declaration[start - 1])) --start;
  field.name = declaration.substr(start);
  return field;
}

// Skips blanks and returns the next character; 0 at the end.
char front(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.empty() ? '\0' : text.front();
}

// Removes a number in C's notation, with or without sign and brackets: 12, 0x400, (0x24),
// (((0x24UL))), -1.
std::optional<std::uint64_t> take_c_number(std::string_view& text) {
  bool negative = false;
  while (front(text) == '(' || front(text) == '-') {
    negative ^= text.front() == '-';
    text.remove_prefix(1);
  }
  std::size_t end = 0;
  while (end < text.size() && is_word(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  while (digits.ends_with('U') || digits.ends_with('L') || digits.ends_with('u') ||
         digits.ends_with('l')) {
    digits.remove_suffix(1);
  }
  const auto value = parse_number(digits);
  if (!value) return std::nullopt;
  while (front(text) == ')') text.remove_prefix(1);
  return negative ? 0 - *value : *value;
}

// Removes numbers joined by operators of one kind: "0x040 + 14", "1 << 3", "1 | 4".
std::optional<std::uint64_t> take_key(std::string_view& text) {
  auto value = take_c_number(text);
  std::string_view known;
  while (value && front(text) != ',' && !text.empty()) {
    const std::string_view op = text.starts_with("<<") ? "<<" : text.substr(0, 1);
    if (!known.empty() && op != known) return std::nullopt;
    known = op;
    text.remove_prefix(op.size());
    const auto other = take_c_number(text);
    if (!other) return std::nullopt;
    if (op == "+") {
      *value += *other;
    } else if (op == "-") {
      *value -= *other;
    } else if (op == "|") {
      *value |= *other;
    } else if (op == "<<" && *other < 64) {
      *value <<= *other;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// Removes quoted strings, which C joins. Returns nullopt if none begins here or one does not end.
std::optional<std::string> take_string(std::string_view& text) {
  if (front(text) != '"') return std::nullopt;
  std::string joined;
  while (front(text) == '"') {
    std::size_t end = 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2U : 1U;
    if (end >= text.size()) return std::nullopt;
    joined += text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  }
  return joined;
}

// Removes ", { KEY, "NAME" }, …" and skips pairs whose key is not a number.
SymbolNames take_names(std::string_view& text) {
  SymbolNames names;
  while (front(text) == ',' && names.size() < kMostNames) {
    text.remove_prefix(1);
    if (front(text) != '{') break;
    text.remove_prefix(1);
    const auto key = take_key(text);
    if (!key) text.remove_prefix(std::min(text.find_first_of(",}"), text.size()));
    if (front(text) != ',') break;
    text.remove_prefix(1);
    const auto name = take_string(text);
    if (!name || front(text) != '}') break;
    text.remove_prefix(1);
    if (key) names.emplace(static_cast<std::uint32_t>(*key), printable(*name));
  }
  return names;
}

// Removes an expression such as "REC->exit_reason & 0xffff, {" up to the comma outside brackets,
// which stays, and returns its field.
std::string_view take_field(std::string_view& text) {
  constexpr std::string_view kRecord = "REC->";
  int depth = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '(') ++depth;
    if (c == ')' && --depth < 0) break;
    if (c == ',' && depth == 0) break;
  }
  std::string_view expression = text.substr(0, end);
  text.remove_prefix(end);
  const auto record = expression.find(kRecord);
  if (record == std::string_view::npos) return {};
  expression.remove_prefix(record + kRecord.size());
  std::size_t length = 0;
  while (length < expression.size() && is_word(expression[length])) ++length;
  return expression.substr(0, length);
}

}  // namespace

std::string_view format_line(std::string_view text, std::string_view key) {
  for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const auto rest = text.substr(at + key.size());
    return trimmed(rest.substr(0, rest.find('\n')));
  }
  return {};
}

std::optional<std::uint16_t> format_id(std::string_view text) {
  const auto id = parse_number(format_line(text, "ID:"));
  if (!id || *id > UINT16_MAX) return std::nullopt;
  return static_cast<std::uint16_t>(*id);
}

std::vector<FormatField> format_fields(std::string_view text) {
  std::vector<FormatField> fields;
  while (!text.empty() && fields.size() < kMostFields) {
    std::string_view line = take_line(text);
    if (line.starts_with("print fmt:")) break;
    const auto declaration = take_value(line, "field:");
    if (!declaration) continue;
    FormatField field = declared(*declaration);
    const auto offset = small_number(take_value(line, "offset:"));
    const auto size = small_number(take_value(line, "size:"));
    if (field.name.empty() || !offset || !size) continue;
    field.offset = *offset;
    field.size = *size;
    fields.push_back(field);
  }
  return fields;
}

std::vector<SymbolTableOfField> format_symbols(std::string_view text) {
  constexpr std::string_view kCall = "__print_symbolic(";
  std::vector<SymbolTableOfField> tables;
  std::string_view rest = format_line(text, "print fmt:");
  for (auto at = rest.find(kCall); at != std::string_view::npos; at = rest.find(kCall)) {
    if (tables.size() == kMostTables) break;
    rest.remove_prefix(at + kCall.size());
    const std::string_view field = take_field(rest);
    tables.push_back({field, take_names(rest)});
  }
  return tables;
}

}  // namespace trapline::test
