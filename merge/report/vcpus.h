// The vCPUs of a report: where their time went.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "merge/pass/naming.h"
#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline {

void fill_vcpus(ReportData& report, const Naming& names);

[[nodiscard]] inline std::string vcpu_text(std::int32_t vcpu) {
  return vcpu == kNoVcpu ? "vCPU ?" : "vCPU " + std::to_string(vcpu);
}
// True if the rows of vCPUs are named with their VM.
[[nodiscard]] bool shows_vms(const ReportData& report);
// "VM 7 vCPU 0", the VM where `with_vm`.
[[nodiscard]] inline std::string vcpu_of_vm_text(const std::string& vm, const std::string& vm_name,
                                                 std::int32_t vcpu, bool with_vm) {
  return (with_vm ? "VM " + vm_text(vm, vm_name) + " " : "") + vcpu_text(vcpu);
}

// Of the vCPU's time as far as exits were seen; nothing where that is not known.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second(const VcpuRow& row,
                                                            const ReportData& report);
// The sum of all vCPUs' rates; nothing where one ended before another began.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second_together(const ReportData& report);

// Borrows the report's rows. Text has the busiest of many, and a row that sums up all.
[[nodiscard]] Table vcpu_table(const ReportData& report);
// A column for each state, with its share of the vCPU's time, or of the interval where the rows are
// of calls.
void add_states(TableOf<VcpuRow>& table, std::span<const VcpuRow> rows, const States& known,
                std::optional<std::uint64_t> interval = std::nullopt);
// The facts "overhead.guest_ns", … of all vCPUs together.
void add_overhead(Facts& facts, const ReportData& report);

}  // namespace trapline
