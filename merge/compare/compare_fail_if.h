// The conditions of `trapline diff --fail-if`: "p99(io) > +10%".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/compare/compare.h"

namespace trapline {

struct FailCondition {
  std::string text;  // as it was written
  Metric metric = Metric::kP99;
  std::string row;  // "*": any
  bool above = true;
  double limit = 0;  // of the change, 0.1 is +10 %
};

[[nodiscard]] Result<FailCondition> parse_fail_condition(std::string_view text);

struct FailVerdict {
  std::vector<std::string> failed;   // a sentence for each row that meets a condition
  std::vector<std::string> unknown;  // one for each named row with too little to tell
};
// A condition is met where the whole confidence interval is beyond its limit: the intervals hold
// together for all rows and conditions that are given, not for those of the comparison. Without
// statistics of runs (Method::kNone) the values decide. An Error names a row that is not there, and
// those that are.
[[nodiscard]] Result<FailVerdict> check_fail_conditions(
    const Comparison& comparison, const std::vector<FailCondition>& conditions);

}  // namespace trapline
