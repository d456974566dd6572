// What to ask of a recording next, chosen from what a report found.
#pragma once

#include <string>
#include <vector>

#include "merge/report/report.h"

namespace trapline {

struct NextStep {
  std::string command;  // what is typed after "trapline"
  std::string answers;
};
// How the report's recording, and the interval of it, are named on the command line; the latter may
// be empty.
struct RecordingWords {
  std::string recording, interval;
};
// Three at most: what the largest part of the exits' time can be asked for, the longest exit, and
// what changes would gain.
[[nodiscard]] std::vector<NextStep> next_steps(const Report& report, const RecordingWords& words);

}  // namespace trapline
