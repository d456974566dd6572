// A report's JSON, whole and in the pieces that other formats share. docs/formats/report.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "merge/render/ordered_json.h"
#include "merge/report/report.h"

namespace trapline {

// The rows of vCPUs and of their halts are many on large hosts: kApart leaves their lists empty,
// for those who write them one by one.
enum class VcpuRows : std::uint8_t { kInside, kApart };
[[nodiscard]] Json report_json(const Report& report, VcpuRows vcpus = VcpuRows::kInside);
[[nodiscard]] Json vcpu_json(const VcpuRow& row, const Report& report);
[[nodiscard]] Json halt_json(const HaltRow& row);
[[nodiscard]] Json row_json(const GroupRow& row, const Report& report);
// "user_ns": 12, or null where the events do not tell it.
void add_parts(Json& json, const Parts& parts, const States& known);
template <typename Value>
[[nodiscard]] Json value_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
[[nodiscard]] Json exit_json(const ExitRow& row, const States& known);
[[nodiscard]] Json distribution_json(const Histogram& histogram);
// The time of a vCPU, and each state's: they add up to it.
void add_states(Json& json, VcpuTotals totals, const States& known);

}  // namespace trapline
