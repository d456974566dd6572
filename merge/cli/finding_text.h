// Formats a finding of the doctor for `trapline doctor` and `trapline record`.
#pragma once

#include <string>

#include "merge/record/doctor.h"

namespace trapline::cli {

// Returns "missing  tracefs: not mounted" and, below it, what the report loses and what fixes it.
[[nodiscard]] std::string finding_text(const record::Finding& finding);

}  // namespace trapline::cli
