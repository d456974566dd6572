// A finished report: plain data that the renderers print. docs/formats/report.md is its schema.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_model.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/model/loss_counts.h"
#include "merge/model/source_alignment.h"
#include "merge/pass/selection.h"
#include "merge/report/halt_cost_report.h"
#include "merge/report/kernel_report.h"
#include "merge/report/phase_report.h"
#include "merge/report/request_report.h"
#include "merge/report/wait_report.h"

namespace trapline {

struct SourceRow {
  std::string path, kind, clock;
  std::optional<std::uint64_t> resolution_ns = std::nullopt;  // nothing: its clock's own unit
  std::uint64_t events = 0, lost = 0;
  SourceAlignment aligned;
};

struct VcpuRow {
  std::string vm, vm_name;
  bool vm_inferred = false;
  std::int32_t vcpu = kNoVcpu;
  std::int32_t tid = 0;
  std::string comm;
  VcpuTotals totals;
};

struct GroupRow {
  std::string key;
  bool halts = false;  // all of its exits are halts
  Histogram total;
  Parts parts{};
  std::uint64_t devices_at_most_ns = 0;  // of calls: what of their guest's time may be devices'
  std::uint64_t max_at_ns = 0;           // when the longest began
  // What most of its time was about, a device or a detail, and how much; of exits only.
  std::string largest;
  std::uint64_t largest_ns = 0;
  bool largest_at_least = false;
  [[nodiscard]] std::uint64_t cost_ns() const { return trapline::cost_ns(parts); }  // of exits

  void merge(const GroupRow& other);
  void add(const ExitSpan& exit);
  // Of calls: what the parts leave.
  [[nodiscard]] std::uint64_t guest_ns() const {
    std::uint64_t rest = total.total();
    for (const std::uint64_t part : parts) rest -= std::min(rest, part);
    return rest;
  }
};

struct VmmEventRow {
  std::string name;
  VmmEventCount count;
};

// One exit, for --slower-than.
struct ExitRow {
  ExitSpan span;
  std::string vcpu, function, reason, detail, device, preempted_by;
};

// One way of an interrupt; docs/formats/report.md.
struct IrqRow {
  std::string vector, pin;
  std::uint64_t raised = 0, injected = 0;
  Histogram to_inject, to_entry, to_eoi;
};

struct GuestFunctionRow {
  std::string name;
  GuestFunctionTimes times;
};

struct HaltRow {
  std::int32_t vcpu = kNoVcpu;
  std::string vm, vm_name;
  Histogram polls_won, slept, wake_to_run;
  std::uint64_t invalid = 0;
};

struct ReportCounters : LossCounts {
  ExitCounters exits;
  CallCounters calls;
  std::uint64_t damaged_events = 0;
  std::uint64_t left_out_events = 0, left_out_pieces = 0;  // by the recorder, on purpose
  std::uint64_t guest_records = 0;
  std::uint64_t requests_restarted = 0, requests_end_only = 0, requests_open = 0;
  std::uint64_t notifies_ambiguous = 0, interrupts_ambiguous = 0;
  std::uint64_t bios_ambiguous = 0;  // of more than one possible request
  std::uint64_t groups_folded = 0;   // exits in "[other]": more groups than are kept
};

// What a report counts.
enum class RowsOf : std::uint8_t {
  kExits,
  kRequests,  // they have no parts
  kCalls,     // of guest functions, where there are no exits: Part::kUser is QEMU's devices
};
[[nodiscard]] constexpr std::string_view name_of(RowsOf rows) {
  constexpr std::string_view kNames[] = {"exits", "requests", "calls"};
  return kNames[static_cast<std::size_t>(rows)];
}

struct Report {
  static constexpr std::string_view kFoldedKey = "[other]", kHaltedKey = "[halted]";

  std::vector<SourceRow> sources;
  std::uint64_t start_ns = 0, end_ns = 0;  // of the first and the last event looked at
  bool cycles = false;
  ExitModel model;
  std::vector<VcpuRow> vcpus;
  // Of all vCPUs; nothing where the times in the guest and in exits are not known.
  std::optional<Overhead> overhead;
  States told;  // by the events, beyond what the model tells
  // The states whose times the events tell.
  [[nodiscard]] States known_states() const {
    if (rows_of != RowsOf::kCalls) return lacks_entries ? told : model.known_states() | told;
    States known = States().set();
    known.reset(static_cast<std::size_t>(State::kPaused));
    known.reset(static_cast<std::size_t>(State::kOffline));
    known.reset(static_cast<std::size_t>(State::kKernel));
    known.reset(static_cast<std::size_t>(State::kHalted));
    known.set(static_cast<std::size_t>(State::kUser), !vmm_events.empty());
    known.set(static_cast<std::size_t>(State::kPreempted), model.sched_switch);
    known.set(static_cast<std::size_t>(State::kBlocked), model.sched_switch);
    return known;
  }
  [[nodiscard]] bool knows(State state) const {
    return known_states()[static_cast<std::size_t>(state)];
  }
  // All vCPUs' time, of which shares are.
  [[nodiscard]] std::uint64_t vcpu_time() const {
    std::uint64_t sum = 0;
    for (const VcpuRow& row : vcpus) sum += row.totals.time_ns();
    return sum;
  }
  bool is_window = false;       // of the recording
  bool saw_halts = false;       // in the recording, up to the end of the interval
  bool costs_at_least = false;  // notes.h
  bool lacks_entries = false;   // ExitTracker::lacks_entries()
  std::size_t threads = 0;      // of vCPUs in the recording, whichever were asked for
  [[nodiscard]] std::uint64_t halted_ns() const {
    std::uint64_t sum = 0;
    for (const VcpuRow& row : vcpus)
      sum += row.totals.parts[static_cast<std::size_t>(Part::kHalted)];
    return sum;
  }
  // What was asked for; where not all exits of those vCPUs are in the rows, how many are, and the
  // figures of all.
  VcpuFilter vcpus_asked;
  ExitFilter exits_asked;
  std::uint64_t exits_in_rows = 0, all_exits = 0, all_cost_ns = 0;
  std::string by;
  RowsOf rows_of = RowsOf::kExits;
  // True if the rows have times.
  [[nodiscard]] bool durations() const { return rows_of != RowsOf::kExits || model.durations(); }
  std::vector<GroupRow> rows;      // those of halts last
  std::size_t rows_left_out = 0;   // by --top
  std::size_t halts_left_out = 0;  // of them rows of halts
  GroupRow left_out, total;        // of exits but halts: those rows in one, and all in one
  GroupRow left_out_halts;
  // The row whose exits cost most, and what all of them cost, halts included.
  std::string costliest;
  std::uint64_t costliest_ns = 0, cost_ns = 0;
  // Of which shares are: what all exits cost, in the rows or not.
  [[nodiscard]] std::uint64_t whole_cost_ns() const {
    return exits_asked.empty() ? cost_ns : all_cost_ns;
  }
  std::vector<RequestPathRow>
      request_paths;            // of the rows, in their order, where they are requests
  std::vector<VhostRow> vhost;  // beside requests
  std::vector<VmmEventRow> vmm_events;
  std::optional<std::vector<ExitRow>> slow_exits;
  std::uint64_t slow_left_out = 0;
  std::uint64_t slower_than_ns = 0;
  std::optional<std::vector<IrqRow>> irqs;
  std::uint64_t irqs_coalesced = 0;  // raised again while they were pending
  bool irq_injections = false;       // the recording has events of them
  // With irqs: the events of interrupts that came, "310 kvm_pic_set_irq, …", and those that did not
  // and would tell more. Either may be empty.
  std::string irq_events, irq_events_missing;
  std::string irq_stages;  // of the text: between which events each of their times lies
  std::optional<std::vector<HaltRow>> halts;
  std::optional<std::vector<HaltCostRow>> halt_costs;  // in order of VM and vCPU
  std::optional<PhaseReport> phases;
  std::optional<KernelReport> kernel;
  std::optional<WaitReport> waits;
  std::optional<WaitCounters> wait_counters;  // where waits were followed
  std::optional<std::vector<StealRow>> steal;
  std::optional<std::vector<GuestFunctionRow>> guest_functions;
  std::size_t guest_functions_left_out = 0;  // by --top
  ReportCounters counters;
  std::vector<std::string> notes;    // sentences a reader has to know
  std::vector<std::string> missing;  // of the sessions; input.h
};

}  // namespace trapline
