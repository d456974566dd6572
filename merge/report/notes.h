// What a reader has to know of a report's figures: what was not recorded, and what that makes of
// them. Notes of single sources come with the input.
#pragma once

#include <string>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/pass/pass.h"
#include "merge/report/report.h"

namespace trapline {

// Notes for a result that is no report: those of the input, and what the model makes of the times.
[[nodiscard]] std::vector<std::string> notes_of(const Pass& pass);

// The facts of the timeline's sources that are called "note": of what was read so far.
void note_sources(const Timeline& timeline, std::vector<std::string>& notes);

// `report` has its model and its vCPUs.
[[nodiscard]] std::vector<std::string> notes_of(const Report& report,
                                                const Capabilities& capabilities, bool several_vms);

}  // namespace trapline
