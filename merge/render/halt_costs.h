// What --halt says of costs, as text and as rows of CSV.
#pragma once

#include <ostream>
#include <vector>

#include "merge/render/text_table.h"
#include "merge/report/halt_cost_report.h"
#include "merge/report/report.h"

namespace trapline {

void print_halt_costs(const Report& report, const std::vector<HaltCostRow>& rows, std::ostream& out,
                      const TextStyle& style);
// vm,vcpu,halt_poll_ns,won,lost,polling_ns,late_ns,saved_ns
void print_halt_costs_csv(const std::vector<HaltCostRow>& rows, std::ostream& out);

}  // namespace trapline
