// Defaults of the user, from the environment: TRAPLINE_CLOCK, TRAPLINE_BUFFER_SIZE,
// TRAPLINE_SYMBOLS, TRAPLINE_TRACE_EVENTS, TRAPLINE_COLOR and NO_COLOR. An option that is typed
// comes first.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace trapline::cli {

// Gives the options of all commands the values of these variables as their defaults, before the
// command line is read. Throws CLI::ConfigError when an option refuses a value.
void apply_environment(CLI::App& app);
// Returns true for help and the version, which are printed whatever the environment holds.
[[nodiscard]] bool needs_no_environment(const std::vector<std::string>& words);

}  // namespace trapline::cli
