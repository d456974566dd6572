// The options of diff and bench: the rows of the comparison, and the conditions of --fail-if.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "merge/cli/common.h"
#include "merge/compare/compare.h"
#include "merge/compare/compare_fail_if.h"

namespace trapline::cli {

struct CompareChoice {
  std::string by;
  bool guest = false, irq = false, waits = false, host_cpu = false, faults = false;
  std::vector<std::string> fail_if;
  bool single_run = false;
  std::string format = "text";
  std::vector<FailCondition> conditions;  // set by complete()
};

// `with_page`: also offers --format html, which print_as() cannot print.
void add_compare_choice(CLI::App& command, CompareChoice& choice, CompareOptions& compare,
                        bool with_page = false);
// Checks the options and parses those that are stored as text, before anything is read.
[[nodiscard]] Result<void> complete(CompareChoice& choice, CompareOptions& compare);
// Checks that there are enough runs: --fail-if decides by runs, and with too few it needs
// --single-run.
[[nodiscard]] Result<void> check_runs(const CompareChoice& choice, std::size_t before,
                                      std::size_t after);
// Prints on stderr which conditions are met. Returns the exit status.
[[nodiscard]] Result<int> check_conditions(const Comparison& comparison,
                                           const CompareChoice& choice);

}  // namespace trapline::cli
