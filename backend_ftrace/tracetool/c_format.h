// The formats of trace events: a C expression of string literals and PRI macros, and the printf
// conversions inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

// What the PRI macro stands for on LP64 Linux ("PRIx64" -> "lx"); empty when it is none of them.
[[nodiscard]] std::string_view pri_macro(std::string_view name);

// A format's text with escapes and macros resolved, and where its parts came from.
struct FormatText {
  struct Run {
    std::uint32_t position;  // in text
    std::uint32_t offset;    // in the file
  };
  std::string text;
  std::vector<Run> runs;  // in order; bytes of a run follow each other in the file

  void append(std::string_view part, std::size_t offset) {
    runs.push_back({static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(offset)});
    text += part;
  }
  // Where byte `position` came from; there must be one.
  [[nodiscard]] std::size_t origin(std::size_t position) const {
    std::size_t run = runs.size() - 1;
    while (run > 0 && runs[run].position > position) --run;
    return runs[run].offset + (position - runs[run].position);
  }
};

struct FormatError {
  std::size_t position = 0;  // in FormatText::text
  std::string message;
};

// Splits the text into pieces and gives each conversion its argument.
[[nodiscard]] std::optional<FormatError> split_format(std::string_view text,
                                                      const std::vector<Argument>& arguments,
                                                      std::vector<Piece>& pieces);

// For an event that has arguments and no format: "a=%d b=%s", each by its type.
[[nodiscard]] std::string default_format(const std::vector<Argument>& arguments);

// The pieces of a format that is taken as it is, for the implicit "cpu=%p ".
void prepend_cpu(Format& format);

}  // namespace trapline::tracetool
