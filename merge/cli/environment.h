// Reads the user's defaults from the environment: TRAPLINE_CLOCK, TRAPLINE_BUFFER_SIZE,
// TRAPLINE_SYMBOLS, TRAPLINE_TRACE_EVENTS, TRAPLINE_COLOR and NO_COLOR. An option that is typed
// takes precedence.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace trapline::cli {

// Makes the values of these variables the defaults of all commands' options, before the command
// line is read. Throws CLI::ConfigError if an option refuses a value.
void apply_environment(CLI::App& app);
// Returns true for help and the version, which are printed whatever the environment contains.
[[nodiscard]] bool needs_no_environment(const std::vector<std::string>& words);

}  // namespace trapline::cli
