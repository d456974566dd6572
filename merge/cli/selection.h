// Options that choose a part of a recording, the same in every command: --vm, --vcpu, --reason,
// --detail, --device, --function, --from, --to.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "merge/pass/selection.h"

namespace trapline::cli {

struct SelectionOptions {
  VcpuFilter vcpus;
  ExitFilter exits;
  std::string from, to;  // as the user typed them
  [[nodiscard]] bool empty() const { return words().empty(); }
  // Returns an Error (kUsage) if a time is not valid.
  [[nodiscard]] Result<void> parse(Selection& which) const;
  // Return the options as the user typed them: {"--vm", "web01"}; all of them, or a part.
  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] std::vector<std::string> vcpu_and_exit_words() const;
  [[nodiscard]] std::vector<std::string> time_words() const;
};

// Adds the options above to a command. `except`: the part of the command's output that --vm and
// --vcpu do not narrow, as help says it: " (not requests)". `exits`: also add the options that
// choose exits.
void add_selection(CLI::App& command, SelectionOptions& options, const std::string& except = {},
                   bool exits = true);

}  // namespace trapline::cli
