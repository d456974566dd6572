// Tables beside a report, as text, JSON and CSV.
#pragma once

#include <ostream>

#include "merge/render/report_json.h"
#include "merge/render/text_table.h"
#include "merge/report/report.h"
#include "merge/report/side_tables.h"

namespace trapline {

// Each after an empty line.
void print_side_tables(const Report& report, const SideTables& tables, std::ostream& out,
                       const TextStyle& style);
void print_side_tables_csv(const Report& report, const SideTables& tables, std::ostream& out);
[[nodiscard]] Json phases_json(const PhaseReport& phases, const Report& report);
// The report with them: keys `halt_costs` and `phases`.
void print_json(const Report& report, const SideTables& tables, std::ostream& out);

}  // namespace trapline
