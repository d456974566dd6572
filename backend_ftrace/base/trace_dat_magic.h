#pragma once

#include <string_view>

namespace trapline {

// The first bytes of a trace.dat, and of the tracepoint formats in a perf.data.
inline constexpr std::string_view kTraceDatMagic = "\x17\x08\x44tracing";

}  // namespace trapline
