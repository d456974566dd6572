// Evaluates the conditions of `trapline diff --fail-if`: "p99(io) > +10%".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/compare/compare.h"

namespace trapline {

struct FailCondition {
  std::string text;  // as the user wrote it
  Metric metric = Metric::kP99;
  std::string row;  // "*": any row
  bool above = true;
  double limit = 0;  // limit of the change; 0.1 is +10 %
};

[[nodiscard]] Result<FailCondition> parse_fail_condition(std::string_view text);

struct FailVerdict {
  std::vector<std::string> failed;   // a sentence for each row that meets a condition
  std::vector<std::string> unknown;  // a sentence for each named row with too little data to decide
};
// Evaluates the conditions. A condition is met if the whole confidence interval is beyond its
// limit. The intervals hold together for all rows and conditions given, not for those of the
// comparison. Without statistics of runs (Method::kNone) the values decide. The Error names a row
// that does not exist, and those that do.
[[nodiscard]] Result<FailVerdict> check_fail_conditions(
    const Comparison& comparison, const std::vector<FailCondition>& conditions);

}  // namespace trapline
