// The subcommand `trapline bench`, as commands.h has the others.
#pragma once

#include <CLI/CLI.hpp>

namespace trapline::cli {

void add_bench(CLI::App& app, int& status);

}  // namespace trapline::cli
