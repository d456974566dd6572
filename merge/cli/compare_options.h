// What diff and bench are asked for: the rows of the comparison, and conditions of --fail-if.
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
  bool guest = false, irq = false, waits = false;
  std::vector<std::string> fail_if;
  bool single_run = false;
  std::string format = "text";
  std::vector<FailCondition> conditions;  // once complete
};

// `with_page`: --format html is there as well; print_as() is not for it.
void add_compare_choice(CLI::App& command, CompareChoice& choice, CompareOptions& compare,
                        bool with_page = false);
// The texts that need more than a number, checked before anything is read.
[[nodiscard]] Result<void> complete(CompareChoice& choice, CompareOptions& compare);
// --fail-if decides by runs: fewer than there have to be need --single-run.
[[nodiscard]] Result<void> check_runs(const CompareChoice& choice, std::size_t before,
                                      std::size_t after);
// Says on stderr which conditions are met; the exit status.
[[nodiscard]] int check_conditions(const Comparison& comparison, const CompareChoice& choice);

}  // namespace trapline::cli
