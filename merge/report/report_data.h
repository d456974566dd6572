// The data of a report before it becomes tables: the figures that several tables, the finding and
// the notes use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_model.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/host_runs.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/model/loss_counts.h"
#include "merge/model/source_alignment.h"
#include "merge/pass/naming.h"
#include "merge/pass/selection.h"
#include "merge/report/groups.h"
#include "merge/report/head.h"
#include "merge/report/requests.h"
#include "merge/report/table.h"
#include "merge/report/waits.h"

namespace trapline {

// The vCPU that a row is about.
struct VcpuId {
  std::string vm, vm_name;  // the id of the vCPU's VM, and the name given by its owner
  std::int32_t vcpu = kNoVcpu;
  ThreadId thread{};
  VcpuId() = default;
  VcpuId(ThreadId of, const VcpuNames& names)
      : vm(names.vm_id(of)), vm_name(names.vm_name(of)), vcpu(names.number(of)), thread(of) {}
  // Returns "VM 7 vCPU 0"; without the VM if `with_vm` is false.
  [[nodiscard]] std::string text(bool with_vm) const {
    return (with_vm ? "VM " + vm_text(vm, vm_name) + " " : "") + "vCPU " +
           (vcpu == kNoVcpu ? "?" : std::to_string(vcpu));
  }
  // Returns what rows of vCPUs are sorted by.
  [[nodiscard]] auto order() const { return std::tie(vm, vcpu, thread); }
};

struct VcpuRow : VcpuId {
  bool vm_inferred = false;
  std::string comm;
  VcpuTotals totals;
  // True if the thread may be of another process than is known: then `vm` is not known.
  bool of_several = false;
};

struct VmmEventRow {
  std::string name;
  VmmEventCount count;
};

struct ReportCounters : LossCounts {
  ExitCounters exits;
  CallCounters calls;
  std::uint64_t damaged_events = 0, damaged_pages = 0, unread_events = 0;
  std::uint64_t left_out_events = 0, left_out_pieces = 0;  // left out by the recorder on purpose
  std::uint64_t guest_records = 0;
  std::uint64_t requests_restarted = 0, requests_end_only = 0, requests_open = 0;
  std::uint64_t notifies_ambiguous = 0, interrupts_ambiguous = 0;
  std::uint64_t bios_ambiguous = 0;  // bios that may belong to several requests
  // Exits in "[other]", because there are more groups than are kept.
  std::uint64_t groups_folded = 0;
};

// The kinds of rows that a report can have.
enum class RowsOf : std::uint8_t {
  kExits,
  kRequests,  // requests; their rows have no parts
  kCalls,     // calls of guest functions, if there are no exits: Part::kUser is QEMU's devices
};
[[nodiscard]] constexpr std::string_view name_of(RowsOf rows) {
  constexpr std::string_view kNames[] = {"exits", "requests", "calls"};
  return kNames[static_cast<std::size_t>(rows)];
}

struct ReportData {
  static constexpr std::string_view kFoldedKey = "[other]", kHaltedKey = "[halted]",
                                    kFaultKey = "page fault";

  std::vector<SourceRow> sources;
  std::uint64_t start_ns = 0, end_ns = 0;  // times of the first and the last event looked at
  bool cycles = false;
  ExitModel model;
  std::vector<VcpuRow> vcpus;
  // Totals over all vCPUs. Nullopt if guest or exit times are not known.
  std::optional<Overhead> overhead;
  States shown;  // states shown by events, beyond those of the model
  // Returns the states whose times the events show.
  [[nodiscard]] States known_states() const {
    if (rows_of != RowsOf::kCalls) return lacks_entries ? shown : model.known_states() | shown;
    States known = States().set();
    for (const State never : {State::kPaused, State::kOffline, State::kKernel, State::kHalted})
      known.reset(static_cast<std::size_t>(never));
    known.set(static_cast<std::size_t>(State::kUser), !vmm_events.empty());
    known.set(static_cast<std::size_t>(State::kPreempted), model.sched_switch);
    known.set(static_cast<std::size_t>(State::kBlocked), model.sched_switch);
    return known;
  }
  [[nodiscard]] bool knows(State state) const {
    return known_states()[static_cast<std::size_t>(state)];
  }
  // Returns the time of all vCPUs, of which shares are taken.
  [[nodiscard]] std::uint64_t vcpu_time() const {
    std::uint64_t sum = 0;
    for (const VcpuRow& row : vcpus) sum += row.totals.time_ns();
    return sum;
  }
  // Returns how much of it was spent in the state.
  [[nodiscard]] std::uint64_t time_in(State state) const {
    std::uint64_t sum = 0;
    for (const VcpuRow& row : vcpus) sum += VcpuTotals(row.totals).of(state);
    return sum;
  }
  bool is_window = false;                  // part of the recording was selected
  bool saw_nested = false;                 // ExitTracker::saw_nested()
  bool saw_halts = false;                  // a vCPU halted, up to the end of the window
  bool costs_at_least = false;             // costs_at_least() of notes.h
  bool lacks_entries = false;              // ExitTracker::lacks_entries()
  std::optional<Timestamp> switches_from;  // ExitTracker::switches_from()
  bool lacks_switches = false;             // ExitTracker::lacks_switches()
  bool waits_in_halts = false;             // ExitTracker::saw_waits_in_halts()
  std::vector<std::string> open;           // OpenExits::sentences()
  std::uint32_t isa = 0;                   // ExitReason::isa of an exit: kIsaArm64, …
  HostRuns::Handler longest_handler;       // HostRuns::longest_handler()
  std::string host_cpu;     // a sentence: what CPU time of the host the VMs took; empty: not known
  std::size_t threads = 0;  // number of vCPU threads in the recording, selected or not
  std::size_t open_exits = 0;  // of these, those that are out of the guest at the end
  // The selection. If the rows do not contain all exits of the selected vCPUs, also how many they
  // contain, and the figures of all.
  VcpuFilter vcpu_filter;
  ExitFilter exit_filter;
  std::uint64_t exits_in_rows = 0, all_exits = 0, all_cost_ns = 0;
  std::set<std::string> reasons_taken;  // the reasons that --reason fits
  std::string by;
  std::size_t top = 0;  // --top: the most rows of a long table; 0: all
  bool page = false;    // the tables are a page's
  RowsOf rows_of = RowsOf::kExits;
  // Returns whether the recording is a text without times: exits are counted and have no durations.
  [[nodiscard]] bool lacks_times() const {
    return std::ranges::find(sources, "none", &SourceRow::clock) != sources.end();
  }
  // Returns whether the rows have times.
  [[nodiscard]] bool durations() const {
    return rows_of != RowsOf::kExits || (model.durations() && !lacks_entries);
  }
  std::vector<GroupRow> rows;      // rows of halts are last
  std::size_t rows_left_out = 0;   // number of rows that --top left out
  std::size_t halts_left_out = 0;  // how many rows of halts --top left out
  // Sums of exits other than halts: in the rows that --top left out, and in all rows.
  // left_out_halts: the halts in rows left out.
  ExitSums left_out, total, left_out_halts;
  // The row whose exits cost most, its cost, and the cost of all exits, halts included.
  std::string costliest;
  std::uint64_t costliest_ns = 0, cost_ns = 0;
  // Returns the time that the rows' shares are of; whole() returns its name.
  [[nodiscard]] std::uint64_t whole_ns() const {
    return overhead && rows_of == RowsOf::kExits ? overhead->busy_ns() : vcpu_time();
  }
  [[nodiscard]] std::string_view whole() const {
    return overhead && rows_of == RowsOf::kExits ? "busy time" : vcpus_time();
  }
  std::string_view vmm = "QEMU";  // who runs the vCPUs: Naming::vmm()
  [[nodiscard]] std::string_view the_vcpus() const {
    return vcpus.size() == 1 ? "the vCPU" : "the vCPUs";
  }
  [[nodiscard]] std::string_view vcpus_time() const {
    return vcpus.size() == 1 ? "the vCPU's time" : "the vCPUs' time";
  }
  // Returns what all exits cost, in the rows or not.
  [[nodiscard]] std::uint64_t whole_cost_ns() const {
    if (!exit_filter.empty()) return all_cost_ns;
    return overhead ? overhead->exit_ns : cost_ns;
  }
  std::vector<RequestPathRow> request_paths;  // for each row, if the rows are requests
  std::vector<VhostRow> vhost;                // set if the rows are requests
  std::vector<VmmEventRow> vmm_events;
  std::vector<std::string> table_notes;  // of the selected tables: the events that would show more
  std::optional<WaitReport> waits;       // set with --waits
  std::optional<WaitCounters> wait_counters;        // set if waits were followed
  std::set<std::string, std::less<>> tables_asked;  // the options of the selected tables
  std::vector<Table> tables;  // the selected tables, and those that come with --by
  ReportCounters counters;
  std::vector<std::string> notes;    // sentences a reader has to know
  std::string not_recorded;          // not_recorded_text()
  std::vector<std::string> missing;  // Input::missing, and why a recording ended early
};

}  // namespace trapline
