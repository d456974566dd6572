// What a uftrace data directory tells of itself.
#pragma once

#include <string>
#include <string_view>

namespace trapline {

// The value of --clock in a command line, empty without one.
[[nodiscard]] std::string clock_option(std::string_view cmdline);

// Data that uftrace replays and this does not.
[[nodiscard]] std::string left_out(const std::string& path, bool with_kernel);

}  // namespace trapline
