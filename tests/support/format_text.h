// Parses the text of one event's format, as in events/SYSTEM/NAME/format:
//
//   name: kvm_exit
//   ID: 1473
//   format:
//     field:unsigned int exit_reason;  offset:8;  size:4;  signed:0;
//     …
//   print fmt: "reason %s", __print_symbolic(REC->exit_reason, { 10, "CPUID" }, { 12, "HLT" })
//
// Trapline reads formats with libtraceevent, in the worker (event_texts.h). This parser is not
// based on libtraceevent: tests compare the two, and fuzz targets use it in place of the worker.
// The text is not trusted; each function passes over it once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::test {

struct FormatField {
  std::string_view name;
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  bool array = false;  // its length is fixed, or given by the event's end or by a word of the event
};

// Returns the number after "ID:", if it is below 65,536.
[[nodiscard]] std::optional<std::uint16_t> format_id(std::string_view text);
// Returns the value of the line that begins with `key`; empty if there is none.
[[nodiscard]] std::string_view format_line(std::string_view text, std::string_view key);
// Returns all fields, the common ones first; skips lines that are not fields.
[[nodiscard]] std::vector<FormatField> format_fields(std::string_view text);

// The names that a recording has for numbers.
using SymbolNames = std::map<std::uint32_t, std::string>;
struct SymbolTableOfField {
  std::string_view field;  // the first field of the expression that has names
  SymbolNames names;       // printable
};
// Returns the __print_symbolic tables of the print format, in the order of the text.
[[nodiscard]] std::vector<SymbolTableOfField> format_symbols(std::string_view text);

}  // namespace trapline::test
