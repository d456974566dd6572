// Calls of guest functions, and what a function's own time was spent on.
#pragma once

#include <cstdint>

#include "merge/analyze/vcpu_time.h"
#include "merge/model/exit_span.h"

namespace trapline {

// A stack of guest functions: the number of a node, GuestStacks.
using StackId = std::uint32_t;
inline constexpr StackId kNoStack = 0;

// What a guest function's own time, without its callees, went to.
struct GuestFunctionTimes {
  std::uint64_t calls = 0;
  std::uint64_t exits = 0;
  std::uint64_t guest_ns = 0;
  Parts parts{};
  // Where there are no exits: QEMU's events in it, and how much of guest_ns may be its devices'.
  std::uint64_t vmm_events = 0;
  std::uint64_t devices_at_most_ns = 0;
  [[nodiscard]] std::uint64_t own_ns() const {
    std::uint64_t sum = guest_ns;
    for (const std::uint64_t part : parts) sum += part;
    return sum;
  }
};

// A call of a guest function.
struct FunctionCall {
  ThreadId thread{};  // of the vCPU
  MachineId machine = MachineId::kHost;
  std::uint64_t task = 0;  // 0: the vCPU's only stack
  StackId stack = kNoStack;
  std::uint32_t depth = 0;
  Timestamp begin, end;
  bool complete = true;  // its own return was recorded
  OwnTime own;           // where the recording has no exits
};

// What of a vCPU's calls did not fit.
struct CallCounters {
  std::uint64_t calls = 0;
  std::uint64_t without_return = 0;  // their time is that up to where they must have ended
  std::uint64_t cut_by_loss = 0;     // events were lost meanwhile: they took longer than is counted
};

}  // namespace trapline
