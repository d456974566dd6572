// The tables of a report whose rows are calls of guest functions (RowsOf::kCalls), as text; and
// what they share with those of exits.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "merge/render/text_table.h"
#include "merge/report/report.h"

namespace trapline {

void print_call_vcpus(const Report& report, std::ostream& out, const TextStyle& style);
void print_call_parts(const Report& report, std::ostream& out, const TextStyle& style);
void print_call_functions(const Report& report, std::ostream& out, const TextStyle& style);

// "VM web01 (1234) vCPU 0 (tid 117)"
[[nodiscard]] std::string vcpu_name(const VcpuRow& row, bool with_vm);
// Whether the rows of vCPUs say whose they are: of several VMs, or of one with a name.
[[nodiscard]] bool shows_vms(const Report& report);
// Of many vCPUs the busiest, in the order of the report; and how many those are that it leaves out.
[[nodiscard]] std::vector<VcpuRow> shown_vcpus(const Report& report);
void print_more_vcpus(const Report& report, std::ostream& out);

}  // namespace trapline
