// Prints typed values as the event's format does: the inverse of event_format.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

inline constexpr std::size_t kNoLimit = std::size_t{1} << 62;
// Limit in bytes for the text of one event from a file: a declaration may be as long as its file,
// while each of its records has a few bytes.
inline constexpr std::size_t kMostEventText = 16 * 1024;

// Appends what printf prints for the format and the values. A missing value (kAbsent, or fewer
// values than arguments) prints as '?'. Strings are not escaped. When `out` grows longer than
// `most` bytes, it is cut there and ends in " [cut off]".
void append_text(const Event& event, std::span<const Value> values, std::string& out,
                 std::size_t most = kNoLimit);

}  // namespace trapline::tracetool
