// A report's JSON, whole and in the pieces that other formats share. docs/formats/report.md.
#pragma once

#include <nlohmann/json.hpp>

#include "merge/render/ordered_json.h"
#include "merge/report/report.h"

namespace trapline {

[[nodiscard]] Json report_json(const Report& report);
[[nodiscard]] Json row_json(const GroupRow& row, RowsOf rows_of = RowsOf::kExits);
[[nodiscard]] Json exit_json(const ExitRow& row);
[[nodiscard]] Json distribution_json(const Histogram& histogram);
// The time of a vCPU, and each state's: they add up to it.
void add_states(Json& json, const VcpuTotals& totals);

}  // namespace trapline
