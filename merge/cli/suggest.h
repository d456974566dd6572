// Errors of the command line that suggest the nearest command or option.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace trapline::cli {

// Returns the Error for a command that `app` does not have; nullopt if `words` begin otherwise.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app,
                                                         const std::vector<std::string>& words);
// Returns the Error for an option that the command in `words` does not have; nullopt for other
// errors.
[[nodiscard]] std::optional<std::string> unknown_option(CLI::App& app,
                                                        const std::vector<std::string>& words);

}  // namespace trapline::cli
