// `trapline snapshot`, as commands.h has the others.
#pragma once

#include <CLI/CLI.hpp>

namespace trapline::cli {

void add_snapshot(CLI::App& app, int& status);

}  // namespace trapline::cli
