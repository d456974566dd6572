// The subcommand `trapline top`, as commands.h has the others.
#pragma once

#include <CLI/CLI.hpp>

namespace trapline::cli {

void add_top(CLI::App& app, int& status);

}  // namespace trapline::cli
