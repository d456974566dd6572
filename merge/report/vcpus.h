// The vCPUs of a report: where their time went.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "merge/pass/naming.h"
#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline {

void fill_vcpus(ReportData& report, const Naming& names);

[[nodiscard]] inline std::string vcpu_text(std::int32_t vcpu) {
  return vcpu == kNoVcpu ? "vCPU ?" : "vCPU " + std::to_string(vcpu);
}
// Returns whether the rows of vCPUs are named with their VM.
[[nodiscard]] bool shows_vms(const ReportData& report);
// Returns "VM 7 vCPU 0"; without the VM if `with_vm` is false.
[[nodiscard]] inline std::string vcpu_of_vm_text(const std::string& vm, const std::string& vm_name,
                                                 std::int32_t vcpu, bool with_vm) {
  return (with_vm ? "VM " + vm_text(vm, vm_name) + " " : "") + vcpu_text(vcpu);
}

// Returns the rate in the time in which the vCPU's exits were seen; nullopt if that is not known.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second(const VcpuRow& row,
                                                            const ReportData& report);
// Returns the sum of all vCPUs' rates; nullopt if one ended before another began.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second_together(const ReportData& report);

// Borrows the report's rows. Text shows the busiest of many, and a row that sums up all.
[[nodiscard]] Table vcpu_table(const ReportData& report);
// Adds a column for each state, with its share of the vCPU's time, or of `interval` if the rows are
// of calls.
void add_states(TableOf<VcpuRow>& table, std::span<const VcpuRow> rows, const States& known,
                std::optional<std::uint64_t> interval = std::nullopt);
// Adds the facts "overhead.guest_ns", … for all vCPUs together.
void add_overhead(Facts& facts, const ReportData& report);

}  // namespace trapline
