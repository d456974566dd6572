// What --help and `trapline help` print: 80 columns, options in groups, three examples.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>

namespace trapline::cli {

inline constexpr std::size_t kHelpWidth = 80;

// The examples below a command's options (examples.cc); empty: there are none.
[[nodiscard]] std::span<const std::string_view> examples_of(std::string_view command);

// Puts options that mean the same in every command into the same group, and has `app` and its
// commands print their help in our form. An option that the table does not name stays in its own
// group.
void arrange_help(CLI::App& app);

// How help writes an option's argument: "FILE", "N", "text|json"; empty for a flag.
[[nodiscard]] std::string argument_of(const CLI::Option& option);
// "-o,--output", as help writes them.
[[nodiscard]] std::string names_of(const CLI::Option& option);

// A text of `trapline help`, from docs/topics/NAME.md.
struct Topic {
  std::string_view name, title, text;
};
[[nodiscard]] std::span<const Topic> topics();

void add_help(CLI::App& app, int& status);
void add_complete(CLI::App& app, int& status);

}  // namespace trapline::cli
