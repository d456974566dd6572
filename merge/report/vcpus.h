// The vCPUs of a report: where their time went.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "merge/pass/naming.h"
#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline {

void fill_vcpus(ReportData& report, const Naming& names);

// Returns whether the rows of vCPUs are named with their VM.
[[nodiscard]] bool shows_vms(const ReportData& report);
// Adds the thread's id and, unless it is the first thread with this id, the number of its life.
template <typename Row, typename Thread>
void add_tid(TableOf<Row>& table, Thread thread) {
  table.add({"tid"}, [thread](const Row& row) { return tid_of(std::invoke(thread, row)); });
  table.add({.key = "life", .csv = false}, [thread](const Row& row) -> CellValue {
    const std::uint64_t life = life_of(std::invoke(thread, row));
    return life == 0 ? CellValue(Absent()) : life + 1;
  });
}
// Adds the columns that say which vCPU a row is about; the thread's id if `has_tid`.
template <typename Row>
void add_vcpu(TableOf<Row>& table, bool has_tid) {
  table.add({"vm"}, &Row::vm);
  table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  if (has_tid) add_tid(table, &Row::thread);
}

// Returns the vCPU's rate of exits in the time in which its exits were seen; nullopt if that time
// is not known.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second(const VcpuRow& row,
                                                            const ReportData& report);
// Returns the sum of all vCPUs' rates; nullopt if one ended before another began.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second_together(const ReportData& report);

// Returns the table of vCPUs, which borrows the report's rows. Of many vCPUs, text shows the
// busiest; and a row that sums up all.
[[nodiscard]] Table vcpu_table(const ReportData& report);
// Adds a column for each state, with its share of the vCPU's time, or of `interval` if the rows are
// of calls.
void add_states(TableOf<VcpuRow>& table, std::span<const VcpuRow> rows, const States& known,
                std::optional<std::uint64_t> interval = std::nullopt);
// Adds the facts "overhead.guest_ns", … for all vCPUs together.
void add_overhead(Facts& facts, const ReportData& report);

}  // namespace trapline
