// Errors of the command line that name the nearest command or option.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace trapline::cli {

// The error of a command that `app` does not have; nothing for `words` that begin otherwise.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app,
                                                         const std::vector<std::string>& words);
// The error of an option that the command of `words` does not have; nothing for other faults.
[[nodiscard]] std::optional<std::string> unknown_option(CLI::App& app,
                                                        const std::vector<std::string>& words);

}  // namespace trapline::cli
