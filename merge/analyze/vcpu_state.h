// What ExitTracker tells of threads that run vCPUs, beside their exits.
#pragma once

#include <cstdint>
#include <optional>

#include "merge/model/exit_span.h"

namespace trapline {

struct ExitCounters {
  std::uint64_t exits = 0;
  std::uint64_t exit_without_entry = 0;  // another kvm_exit or the recording's end came first
  std::uint64_t entry_without_exit = 0;
  std::uint64_t closed_by_loss = 0;    // open spans whose end may be among lost events
  std::uint64_t user_without_end = 0;  // user intervals that only kvm_entry ended
  std::uint64_t clock_went_back = 0;   // events of a thread stamped before its last one
  std::uint64_t vmm_events = 0;
  std::uint64_t vmm_events_in_exits = 0;
  std::uint64_t intervals_left_out = 0;  // beyond ExitTracker::kMostIntervals of an exit
  std::uint64_t threads_left_out = 0;    // kvm events of threads beyond the most that are followed
  // No spans: the vCPU was paused, went offline or ended in them.
  std::uint64_t exits_stopped = 0;
};

// What is known of a thread that runs a vCPU. Its time is the sum of its states; it begins with the
// thread's creation or its first event of KVM.
struct VcpuTotals {
  std::int32_t vcpu = kNoVcpu;
  std::uint16_t source = 0;
  std::uint64_t exits = 0;
  std::uint64_t guest_ns = 0;
  Parts parts{};
  std::uint64_t paused_ns = 0, offline_ns = 0, not_seen_ns = 0;
  // x86: exits with rip 0, and whether one had another: SEV-ES, SNP and TDX hide the registers.
  std::uint64_t rip_hidden = 0;
  bool rip_shown = false;
  Timestamp begin, end;  // end: once the thread or the recording ended
  // The state that was carried to the recording's end, and since when it, or the exit that it is
  // in, lasted.
  std::optional<State> open;
  std::uint64_t open_ns = 0;
  Parts cut_parts{};  // of exits that the end cuts, or the beginning of the figures

  [[nodiscard]] std::uint64_t& of(State state) {
    if (state == State::kGuest) return guest_ns;
    if (state == State::kPaused) return paused_ns;
    if (state == State::kOffline) return offline_ns;
    if (state == State::kNotSeen) return not_seen_ns;
    return parts[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] std::uint64_t time_ns() const {
    std::uint64_t sum = guest_ns + paused_ns + offline_ns + not_seen_ns;
    for (const std::uint64_t part : parts) sum += part;
    return sum;
  }
  // The exits and states of another vCPU as well.
  void add(const VcpuTotals& other) {
    exits += other.exits;
    guest_ns += other.guest_ns;
    for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
    paused_ns += other.paused_ns;
    offline_ns += other.offline_ns;
    not_seen_ns += other.not_seen_ns;
  }
};

// What exits cost, of the busy time. An exit that is cut is in neither cost.
struct Overhead {
  std::uint64_t guest_ns = 0, exit_ns = 0, not_run_ns = 0;
  [[nodiscard]] std::uint64_t busy_ns() const { return guest_ns + exit_ns + not_run_ns; }
  void add(const VcpuTotals& totals) {
    const auto ended = [&](Part part) {
      const auto i = static_cast<std::size_t>(part);
      return totals.parts[i] - totals.cut_parts[i];
    };
    guest_ns += totals.guest_ns;
    exit_ns += ended(Part::kKernel) + ended(Part::kUser) + ended(Part::kBlocked);
    not_run_ns += ended(Part::kPreempted);
  }
};

// How often a QEMU event came, and how often inside an exit.
struct VmmEventCount {
  std::uint64_t count = 0;
  std::uint64_t in_exits = 0;
};

// What of an exit is kept beside its sums.
enum class Detail : std::uint8_t { kSums, kIntervals };

// An exit that has not been handed out yet.
struct OpenExit {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin;
  ExitReason reason;
  // Its end is known, and the next event of its thread hands it out (recordings without kvm_exit).
  std::optional<Timestamp> end;
};

// Where a thread that runs a vCPU is, as far as its last event tells.
struct VcpuState {
  enum class Where : std::uint8_t { kUnknown, kGuest, kKernel, kUser };
  Where where = Where::kUnknown;
  std::int32_t vcpu = kNoVcpu;
  ExitReason reason;                 // kKernel, kUser
  Timestamp begin;                   // of the guest's run, or of the exit
  Timestamp user_begin;              // of the last time in user space, 0 for none yet
  std::optional<Timestamp> off_cpu;  // when the thread was last switched out
};

// The state that a vCPU has been in since its last event.
struct StateNow {
  State state = State::kNotSeen;
  std::int32_t vcpu = kNoVcpu;
  ExitReason reason;            // of the exit that it is in
  Timestamp since;              // when that exit, or the state, began
  std::uint64_t halted_ns = 0;  // of that exit so far
};

// A time that the guest ran: from kvm_entry to kvm_exit, or to where its thread was switched out.
struct GuestRun {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin, end;
};

// A time that a vCPU spent in one state, outside of the exits and guest's runs that are handed out:
// it was not running, or an exit or a run was cut off.
struct StateRun {
  ThreadId thread{};
  State state = State::kNotSeen;
  Timestamp begin, end;
};

// A thread that runs a vCPU, and what it spent its time on.
struct VcpuTotalsOf {
  ThreadId thread{};
  VcpuTotals totals;
};

}  // namespace trapline
