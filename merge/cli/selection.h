// Options that choose a part of a recording, the same in every command: --vm, --vcpu, --reason,
// --detail, --device, --function, --from, --to.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "merge/pass/selection.h"

namespace trapline::cli {

// Adds the options above to a command. `except`: the part of the command's output that --vm and
// --vcpu do not narrow, as help says it: " (not requests)". `exits`: also add the options that
// choose exits.
void add_selection(CLI::App& command, Selection& selection, const std::string& except = {},
                   bool exits = true);

}  // namespace trapline::cli
