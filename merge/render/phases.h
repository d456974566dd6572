// --phases, as text and as rows of CSV.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/phase_report.h"
#include "merge/report/report.h"

namespace trapline {

void print_phases(const Report& report, const PhaseReport& phases, std::ostream& out,
                  const TextStyle& style);
// phase,what,name,start_ns,ns,exits,guest_ns,kernel_ns,user_ns,preempted_ns,blocked_ns,halted_ns:
// a row of each phase, then those of its devices and functions.
void print_phases_csv(const Report& report, const PhaseReport& phases, std::ostream& out);

}  // namespace trapline
