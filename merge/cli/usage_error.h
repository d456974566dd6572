// Faults of the command line that CLI11 finds, in one line in the form of our other errors: what is
// wrong with what, then what to do.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace trapline::cli {

// `words` are the command line without the program's name.
[[nodiscard]] std::string usage_error(CLI::App& app, const std::vector<std::string>& words,
                                      const CLI::ParseError& error);
// The same for CLI11's text on the value of an option; other texts are returned as they are.
[[nodiscard]] std::string value_error(std::string_view said);
// Has every option that takes a count refuse a negative number.
void refuse_negative_counts(CLI::App& app);

}  // namespace trapline::cli
