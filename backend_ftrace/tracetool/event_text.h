// Prints typed values the way the event's format does: the inverse of event_format.h.
#pragma once

#include <span>
#include <string>

#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

// Appends what printf prints for the format and the values. A missing value (kAbsent, or fewer
// values than arguments) prints as '?'. Strings are taken as they are.
void append_text(const Event& event, std::span<const Value> values, std::string& out);

}  // namespace trapline::tracetool
