// --phase NAME=PATTERN, and the phases that are looked for without one.
#pragma once

#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/report/phase_report.h"

namespace trapline {

// PATTERN: a text of the console, function:NAME, or 0xFIRST..0xLAST.
[[nodiscard]] Result<PhaseSpec> parse_phase_spec(std::string_view text);

// A Linux kernel, by its addresses, and its init, by what it prints.
[[nodiscard]] std::vector<PhaseSpec> default_phases();

}  // namespace trapline
