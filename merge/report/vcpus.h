// The vCPUs of a report: where their time went.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

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

// Adds a column for each state, with its share of `whole(row)`, which is called `of`. `totals`: a
// member of the row. `titles`: without a title, text has no such column; nor, of a state that is
// rare, if no row has any. `not_known`: Column::drop_order of states whose times are not known; 0:
// as if they were known.
template <typename Row, typename Whole>
void add_states(TableOf<Row>& table, const States& known,
                const std::array<std::string_view, kStates>& titles, const std::string& of,
                std::uint8_t not_known, VcpuTotals Row::*totals, Whole whole) {
  for (const State state :
       {State::kGuest, State::kKernel, State::kUser, State::kPreempted, State::kBlocked,
        State::kHalted, State::kPaused, State::kOffline, State::kNotSeen}) {
    const auto i = static_cast<std::size_t>(state);
    const auto time = [state, totals](const Row& row) { return VcpuTotals(row.*totals).of(state); };
    const bool is_rare = i >= kParts && state != State::kGuest;
    const bool never =
        is_rare && std::ranges::all_of(table.all(), [&](const Row& row) { return time(row) == 0; });
    const std::size_t drop_order = state == State::kGuest ? 0
                                   : not_known != 0 && state != State::kNotSeen && !known[i]
                                       ? not_known
                                       : 1 + std::min(i, kParts);
    table.add(
        {.key = std::string(kStateKeys[i]) + "_ns",
         .title = std::string(never ? "" : titles[i]),
         .unit = Unit::kShare,
         .drop_order = static_cast<std::uint8_t>(drop_order),
         .whole = of},
        [=](const Row& row) {
          const std::uint64_t ns = time(row);
          return Share{state == State::kNotSeen ? ns : known_ns(known, state, ns), whole(row)};
        });
  }
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
// Adds the facts "overhead.guest_ns", … for all vCPUs together.
void add_overhead(Facts& facts, const ReportData& report);

}  // namespace trapline
