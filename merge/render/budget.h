// What of a report matters most, in so many bytes of JSON: for programs that pay for what they
// read.
#pragma once

#include <cstddef>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/report/next_steps.h"
#include "merge/report/report.h"

namespace trapline {

// The report's JSON with `finding` (the sentence that the text begins with), `next` (what to ask
// next) and `left_out`: of each list that was cut how many rows, and the command that prints all,
// which is `all`; null: nothing. Counters that are 0 are not in it. Errors (kUsage): what stays
// takes more.
[[nodiscard]] Result<std::string> report_within(const Report& report, const RecordingWords& words,
                                                const std::string& all, std::size_t bytes);

}  // namespace trapline
