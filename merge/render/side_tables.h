// Tables beside a report, as text, JSON and CSV.
#pragma once

#include <ostream>

#include "merge/render/report_json.h"
#include "merge/render/text_table.h"
#include "merge/report/report.h"

namespace trapline {

// Each after an empty line.
void print_side_tables(const Report& report, std::ostream& out, const TextStyle& style);
void print_side_tables_csv(const Report& report, std::ostream& out);
[[nodiscard]] Json phases_json(const PhaseReport& phases, const Report& report);
[[nodiscard]] Json halt_cost_json(const HaltCostRow& row, bool cycles);

}  // namespace trapline
