// A report's JSON, and the pieces that other formats share. docs/formats/report.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "merge/render/ordered_json.h"
#include "merge/report/report.h"
#include "merge/report/table.h"
#include "merge/report/tables.h"

namespace trapline {

// The lists of vCPUs and of their halts are empty: there may be ten thousands, and who prints them
// does so row by row.
// What was asked for: {"vm": "web01", "device": "rtc"}; empty: all.
[[nodiscard]] Json filter_json(const VcpuFilter& vcpus, const ExitFilter& exits);
[[nodiscard]] Json report_json(const Report& report);
// A row of halt_cost_table(), with what other limits of polling would have cost.
[[nodiscard]] Json halt_cost_json(const Table& table, std::size_t row, const Report& report);
[[nodiscard]] Json phases_json(const PhaseReport& phases, const Report& report);
[[nodiscard]] Json counters_json(std::span<const CounterRow> rows);

template <typename Number>
[[nodiscard]] Json value_or_null(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace trapline
