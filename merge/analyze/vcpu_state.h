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
};

// What is known of a thread that runs a vCPU.
struct VcpuTotals {
  std::int32_t vcpu = kNoVcpu;
  std::uint16_t source = 0;
  std::uint64_t exits = 0;
  std::uint64_t guest_ns = 0;
  Parts parts{};
  std::uint64_t halt_ns = 0;  // of the parts, those of exits that are halts
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

// A time that the guest ran: from kvm_entry to kvm_exit.
struct GuestRun {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin, end;
};

// A thread that runs a vCPU, and what it spent its time on.
struct VcpuTotalsOf {
  ThreadId thread{};
  VcpuTotals totals;
};

}  // namespace trapline
