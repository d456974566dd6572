// What a reader has to know of a report's figures: what was not recorded, and what that makes of
// them. Notes of single sources come with the input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/report/report.h"

namespace trapline {

// What the model makes of the times.
[[nodiscard]] std::vector<std::string> notes_of(const ExitModel& model);
inline constexpr std::string_view kCyclesNote =
    "times are cycles of the TSC: the recording does not tell its frequency; give --tsc-khz";

// `report` has its model and its vCPUs.
[[nodiscard]] std::vector<std::string> notes_of(const Report& report,
                                                const Capabilities& capabilities, bool several_vms);

}  // namespace trapline
