// The formats of trace events: C expressions of string literals and PRI macros with printf
// conversions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

// Returns what a PRI macro expands to on LP64 Linux ("PRIx64" -> "lx"); empty for other names.
[[nodiscard]] std::string_view pri_macro(std::string_view name);

// The text of a format with escapes and macros resolved, and where in the file each part came from.
struct FormatText {
  struct Run {
    std::uint32_t position;  // in text
    std::uint32_t offset;    // in the file
  };
  std::string text;
  std::vector<Run> runs;  // in order; the bytes of a run are contiguous in the file

  void append(std::string_view part, std::size_t offset) {
    runs.push_back({static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(offset)});
    text += part;
  }
  // Returns the file offset of the text's byte `position`. Needs at least one run.
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

// Splits the text into pieces and assigns an argument to each conversion. Returns the error, if
// any.
[[nodiscard]] std::optional<FormatError> split_format(std::string_view text,
                                                      const std::vector<Argument>& arguments,
                                                      std::vector<Piece>& pieces);

// Makes the format of an event that has arguments but no format: "a=%d b=%s", each by its type.
[[nodiscard]] std::string default_format(const std::vector<Argument>& arguments);

// Puts the implicit "cpu=%p " before the pieces of a format.
void prepend_cpu(Format& format);

}  // namespace trapline::tracetool
