// A trace that was printed as text, as a source: `trace-cmd report`, with and without -t and -R,
// the files trace and trace_pipe of tracefs, `perf script`, and what was pasted from them into a
// mail: quoted, cut, wrapped, with prose around.
//
//   file → TextLines → TextLine → TextEvents → Event
//                └ TextLosses, before it is read
//
// A text does not say its clock. Its times are as exact as their last digit; whole numbers, which
// trace-cmd prints of clocks that it does not know, are what the user or a line about the clock
// says. An event that comes
// later in the text than one of a later time has that time; such lines, and those that are none of
// a trace, are counted, and told by facts() as notes. An event whose text is cut is counted as
// damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "merge/source/file.h"
#include "merge/source/source.h"

namespace trapline::trace_text {

// The losses of a text. A line that tells of one stands before the next event of its CPU, maybe
// long after the last one; the timeline has to know it when it has read the last one, so they are
// sought before the text is read. A text without any is only searched for the words.
struct TextLoss {
  std::uint64_t offset = 0;  // in the file: after the last event before it, of its CPU
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
  std::uint32_t cpu = 0;
};

// In order of their offsets. Errors: the file cannot be read; more than a recording can have.
[[nodiscard]] Result<std::vector<TextLoss>> find_text_losses(const File& file);

}  // namespace trapline::trace_text

namespace trapline {

// Whether a line of it is one of a trace.
[[nodiscard]] bool has_trace_line(std::string_view text);

// `unit`: what times without a fraction are, "ns" or "cycles"; empty: a line about the clock says
// it. An error says that no line of the file is one of a trace, and which forms are read, or that
// nothing says the unit.
[[nodiscard]] Result<std::unique_ptr<Source>> open_trace_text(const std::string& path,
                                                              std::string_view unit);

}  // namespace trapline
