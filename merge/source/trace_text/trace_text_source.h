// Reads a printed trace as a source: `trace-cmd report`, with and without -t and -R, the files
// trace and trace_pipe of tracefs, `perf script`, and excerpts pasted into a mail: quoted, cut,
// wrapped, with prose around.
//
//   file → TextLines → TextLine → TextEvents → Event
//                └ TextLosses, before it is read
//
// A text does not name its clock. Its times are as exact as their last digit. Whole numbers, which
// trace-cmd prints for clocks that it does not know, have the unit that the user or a line about
// the clock gives. An event that comes after one with a later time gets that later time. Such
// lines, and lines that are not part of a trace, are counted, and facts() reports them as notes. An
// event whose text is cut off counts as damaged. A text that was pasted twice is read once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "merge/source/file.h"
#include "merge/source/source.h"

namespace trapline {

// Returns whether the text has a line of a trace.
[[nodiscard]] bool has_trace_line(std::string_view text);

// Opens a text. `unit` is the unit of times without a fraction, "ns" or "cycles"; empty: a line
// about the clock gives it. Errors: no line of the file is part of a trace (with the forms that can
// be read); nothing gives the unit.
[[nodiscard]] Result<std::unique_ptr<Source>> open_trace_text(File file, std::string_view unit);

}  // namespace trapline
