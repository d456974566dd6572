// One VM exit: why the guest was left, how long, and what the time went to.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "merge/model/event.h"
#include "merge/model/names.h"

namespace trapline {

// The disjoint parts of an exit.
enum class Part : std::uint8_t { kKernel, kUser, kPreempted, kBlocked, kHalted };
inline constexpr std::size_t kParts = 5;
inline constexpr std::array<std::string_view, kParts> kPartNames = {"kernel", "user", "preempted",
                                                                    "blocked", "halted"};
using Parts = std::array<std::uint64_t, kParts>;  // nanoseconds, indexed by Part
// What exits with these parts cost, as Overhead counts: without the wait for a CPU, and without the
// halts themselves.
[[nodiscard]] constexpr std::uint64_t cost_ns(const Parts& parts) {
  const auto of = [&parts](Part part) { return parts[static_cast<std::size_t>(part)]; };
  return of(Part::kKernel) + of(Part::kUser) + of(Part::kBlocked);
}

// The states of a vCPU, one at a time: the parts of its exits, with their numbers, and the others.
enum class State : std::uint8_t {
  kKernel,
  kUser,
  kPreempted,
  kBlocked,
  kHalted,
  kGuest,
  kPaused,   // stopped from outside
  kOffline,  // not started, or told to stop: it waits for SIPI, PSCI or HSM
  kNotSeen
};
inline constexpr std::size_t kStates = 9;
inline constexpr std::array<std::string_view, kStates> kStateNames = {
    "kernel", "user", "preempted", "blocked", "halted", "guest", "paused", "offline", "not seen"};
// As the keys of JSON and columns begin with them.
inline constexpr std::array<std::string_view, kStates> kStateKeys = {
    "kernel", "user", "preempted", "blocked", "halted", "guest", "paused", "offline", "not_seen"};

// Those whose times the events of a recording tell, by State.
using States = std::bitset<kStates>;
// Nothing where the events tell of no time in it, and could not tell.
[[nodiscard]] inline std::optional<std::uint64_t> told(const States& known, State state,
                                                       std::uint64_t ns) {
  if (ns == 0 && !known[static_cast<std::size_t>(state)]) return std::nullopt;
  return ns;
}
// Without sched_switch and kvm_vcpu_wakeup halts count as a whole: the way in and out, which is
// what they cost, is in their halted time. `halts`: all of the exits are.
[[nodiscard]] inline bool are_whole_halts(const States& known, bool halts, const Parts& parts) {
  return halts && known[static_cast<std::size_t>(State::kHalted)] &&
         !known[static_cast<std::size_t>(State::kPreempted)] && cost_ns(parts) == 0;
}
[[nodiscard]] inline std::optional<std::uint64_t> told(const States& known, std::size_t part,
                                                       const Parts& parts, bool halts) {
  const bool is_halted = static_cast<Part>(part) == Part::kHalted;
  if (!is_halted && are_whole_halts(known, halts, parts)) return std::nullopt;
  return told(known, static_cast<State>(part), parts[part]);
}

// A time that one part of an exit lasted. Those of an exit follow each other without a gap.
struct PartInterval {
  Part part = Part::kKernel;
  Timestamp begin, end;
};

// One of QEMU's events inside an exit's user time.
struct HandlerEvent {
  Timestamp at;
  NameId event = kNoName;
  NameId region = kNoName;  // the memory region that was accessed, of events that name one
  bool ends = false;        // it is traced after the device answered (a region's read)
};

inline constexpr KvmDetail kNoDetail{0, 0, DetailKind::kNone, Access::kNone, false};

// One exit, from kvm_exit to kvm_entry of the same thread (fallback: the time in user space).
// parts sum to end - start exactly.
struct ExitSpan {
  static constexpr std::uint32_t kNoUserspaceReason = 0xffffffff;
  // Whether its end is known; else `end` is up to where its parts are.
  enum class End : std::uint8_t {
    kKnown,
    kCut,   // by a loss, a window, its thread's end or an event that does not fit
    kOpen,  // it lasts at the recording's end
  };

  Timestamp start, end;
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;  // as far as known when the exit ended
  std::uint32_t cpu = 0;        // the host CPU it began on
  std::uint16_t source = 0;     // index in the timeline
  ExitReason reason;
  std::uint64_t rip = 0;  // 0 in the fallback
  Parts parts{};
  KvmDetail detail = kNoDetail;
  std::uint32_t userspace_reason = kNoUserspaceReason;
  std::uint32_t vmm_events = 0;
  NameId device = kNoName;     // the memory region that served it
  NameId vmm_event = kNoName;  // the handler: the event that tells who served it
  NestedLevel nested = NestedLevel::kGuest;
  std::uint32_t injected = kNoVector;  // the last interrupt vector injected before the entry
  ThreadId preempted_by{};             // who ran when it was first preempted; 0: it was not
  // The guest waited for an interrupt, and KVM or user space for it: is_halt(), but for a WFE and a
  // nested guest's HLT that is passed on; and an exit of another reason in which KVM halted.
  bool halt = false;
  End ended = End::kKnown;

  // Where a sink asks for them (SpanClass::kIntervals); valid as long as the span that was handed
  // out.
  std::span<const PartInterval> intervals;
  std::span<const HandlerEvent> handlers;

  [[nodiscard]] std::uint64_t total() const { return elapsed(start, end); }
};

}  // namespace trapline
