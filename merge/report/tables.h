// The tables of a report. Each source fills its rows and describes its columns: a new column is a
// line there, and a line in docs/formats/report.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merge/pass/naming.h"
#include "merge/report/report.h"
#include "merge/report/table.h"

namespace trapline {

[[nodiscard]] inline std::string vcpu_text(std::int32_t vcpu) {
  return vcpu == kNoVcpu ? "vCPU ?" : "vCPU " + std::to_string(vcpu);
}

// source_table.cc
void fill_sources(Report& report, const Timeline& timeline);
[[nodiscard]] Table source_table(const Report& report);

// counter_rows.cc: the counters in the order of JSON, which has all of them.
struct CounterRow {
  std::string_view key;
  std::optional<std::uint64_t> count;  // nothing: not known
  std::string sentence{};              // of the text; empty: not there
  std::uint64_t expected = 0;          // up to this text does not tell it
};
[[nodiscard]] std::vector<CounterRow> counter_rows(const Report& report);

// vcpu_table.cc
inline constexpr std::string_view kRateTitle = "exits/s";
// Of the vCPU's time as far as exits were seen; nothing where that is not known.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second(const VcpuRow& row,
                                                            const Report& report);
// The sum of all vCPUs' rates; nothing where one ended before another began.
[[nodiscard]] std::optional<std::uint64_t> exits_per_second_together(const Report& report);
void fill_vcpus(Report& report, const Naming& names);
[[nodiscard]] Table vcpu_table(std::span<const VcpuRow> rows, const Report& report);
// True if the rows of vCPUs are named with their VM.
[[nodiscard]] bool shows_vms(const Report& report);
// "VM 7 vCPU 0", the VM where `with_vm`.
[[nodiscard]] inline std::string vcpu_of_vm_text(const std::string& vm, const std::string& vm_name,
                                                 std::int32_t vcpu, bool with_vm) {
  return (with_vm ? "VM " + vm_text(vm, vm_name) + " " : "") + vcpu_text(vcpu);
}
// "VM 7 vCPU 0 (tid 123)", the VM where `with_vm`.
[[nodiscard]] std::string vcpu_name(const VcpuRow& row, bool with_vm);
// A column for each state, with its share of the vCPU's time, or of the interval where the rows are
// of calls.
void add_states(TableOf<VcpuRow>& table, std::span<const VcpuRow> rows, const States& known,
                std::optional<std::uint64_t> interval = std::nullopt);
// The top level's "overhead": a row, the report.
[[nodiscard]] Table overhead_table(const Report& report);

// group_table.cc
[[nodiscard]] Table group_table(std::span<const GroupRow> rows, const Report& report);

// guest_table.cc
void fill_guest_functions(Report& report, const Pipeline& pipeline, std::size_t top);
[[nodiscard]] Table guest_function_table(const Report& report);

// qemu_event_table.cc
void fill_vmm_events(Report& report, const Pipeline& pipeline);
[[nodiscard]] Table vmm_event_table(const Report& report);

// halt_table.cc
void fill_halts(Report& report, const Naming& names);
[[nodiscard]] Table halt_table(const Report& report);

// halt_cost_table.cc
[[nodiscard]] Table halt_cost_table(const Report& report);
// What another value of halt_poll_ns means for a vCPU, or for all of them.
struct ReplayRow {
  std::string vm;
  std::int32_t vcpu = kNoVcpu;
  HaltReplays::Row setting{};
  std::uint64_t late_ns = 0, time_ns = 0;  // as recorded, of the vCPU
};
[[nodiscard]] std::vector<ReplayRow> replay_rows(const HaltCostRow& costs);
[[nodiscard]] Table replay_table(std::span<const ReplayRow> rows);

// irq_table.cc, request_table.cc
[[nodiscard]] Table irq_table(const Report& report);
[[nodiscard]] Table request_path_table(const Report& report);
[[nodiscard]] Table vhost_table(const Report& report);

// kernel_table.cc
[[nodiscard]] Table kernel_table(const KernelReport& kernel);

// phase_table.cc
[[nodiscard]] Table phase_table(std::span<const PhaseRow> rows, const Report& report);
// A device or a function of a phase: in CSV with the columns of the phases.
struct PhaseShareRow {
  std::string_view phase, what;
  const PhaseShare* share;
  std::uint64_t whole;  // of all functions
};
[[nodiscard]] std::vector<PhaseShareRow> share_rows(const PhaseRow& phase, std::string_view what,
                                                    const std::vector<PhaseShare>& shares);
[[nodiscard]] Table phase_share_table(std::span<const PhaseShareRow> rows, const Report& report);

// slow_exits.cc
// `vmm_events`: the recording has events of QEMU.
[[nodiscard]] Table slow_exit_table(std::span<const ExitRow> rows, const States& known,
                                    bool vmm_events);

// steal_table.cc: without who stole the time.
[[nodiscard]] Table steal_table(const Report& report);

// wait_table.cc; `part` and the thread of the vCPU are columns of CSV alone.
[[nodiscard]] Table wait_table(const WaitRows& waits, std::string_view part, std::int32_t vcpu_tid);

}  // namespace trapline
