// Parts of a report's text with more than a table to say.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "merge/render/text_table.h"
#include "merge/report/tables.h"

namespace trapline {

// text.cc: those above what is expected, after a heading.
void print_counters(std::span<const CounterRow> rows, std::ostream& out, const TextStyle& style);
// kernel.cc: --kernel
void print_kernel(const Report& report, std::ostream& out, const TextStyle& style);
// waits.cc: --waits, --steal
void print_waits(const Report& report, std::ostream& out, const TextStyle& style);
// phases.cc: --phases
void print_phases(const Report& report, const PhaseReport& phases, std::ostream& out,
                  const TextStyle& style);
// halt_costs.cc: what --halt says of costs
void print_halt_costs(const Report& report, const std::vector<HaltCostRow>& rows, std::ostream& out,
                      const TextStyle& style);

}  // namespace trapline
