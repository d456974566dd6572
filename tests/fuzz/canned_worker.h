// A Worker without a process, for fuzz targets that read recordings. The independent parser of
// tests/support says what libtraceevent would say of an event's format, so that libtraceevent's own
// faults are not found here; event_texts_fuzz has the real worker. Files of symbols have no worker.
#pragma once

#include <string_view>

namespace trapline::fuzz {

// Taken in place of all answers: each its kind, its size, two bytes, and its payload.
extern std::string_view false_answers;

}  // namespace trapline::fuzz
