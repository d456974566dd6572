// A finding of the doctor's, as `trapline doctor` and `trapline record` print it.
#pragma once

#include <string>

#include "merge/record/doctor.h"

namespace trapline::cli {

// "missing  tracefs: not mounted" and, below it, what it costs and what closes the gap.
[[nodiscard]] std::string finding_text(const record::Finding& finding);

}  // namespace trapline::cli
