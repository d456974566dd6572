#pragma once

#include <string_view>

namespace trapline {

// What a trace.dat begins with, and in a perf.data the formats of its tracepoints.
inline constexpr std::string_view kTraceDatMagic = "\x17\x08\x44tracing";

}  // namespace trapline
