// A trace that was printed as text, as a source: `trace-cmd report`, with and without -t and -R,
// the files trace and trace_pipe of tracefs, `perf script`, and what was pasted from them into a
// mail: quoted, cut, wrapped, with prose around.
//
//   file → TextLines → TextLine → TextEvents → Event
//                └ TextLosses, before it is read
//
// A text does not say its clock. Its times are as exact as their last digit; whole numbers, which
// trace-cmd prints of clocks that it does not know, are what the user or a line about the clock
// says. An event that comes later in the text than one of a later time has that time; such lines,
// and those that are none of a trace, are counted, and told by facts() as notes. An event whose
// text is cut is counted as damaged. A text that was pasted twice is read once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "merge/source/source.h"

namespace trapline {

// Whether a line of it is one of a trace.
[[nodiscard]] bool has_trace_line(std::string_view text);

// `unit`: what times without a fraction are, "ns" or "cycles"; empty: a line about the clock says
// it. An error says that no line of the file is one of a trace, and which forms are read, or that
// nothing says the unit.
[[nodiscard]] Result<std::unique_ptr<Source>> open_trace_text(const std::string& path,
                                                              std::string_view unit);

}  // namespace trapline
