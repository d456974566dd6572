// One VM exit: why the guest was left, for how long, and which parts the time has.
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

// The disjoint parts of an exit's time.
enum class Part : std::uint8_t { kKernel, kUser, kPreempted, kBlocked, kHalted };
inline constexpr std::size_t kParts = 5;
inline constexpr std::array<std::string_view, kParts> kPartNames = {"kernel", "user", "preempted",
                                                                    "blocked", "halted"};
using Parts = std::array<std::uint64_t, kParts>;  // nanoseconds, indexed by Part
// Returns what exits with these parts cost, as Overhead counts it: without the wait for a CPU and
// without the halts.
[[nodiscard]] constexpr std::uint64_t cost_ns(const Parts& parts) {
  const auto of = [&parts](Part part) { return parts[static_cast<std::size_t>(part)]; };
  return of(Part::kKernel) + of(Part::kUser) + of(Part::kBlocked);
}

// A length of time, divided into the time in the guest and the parts of exits, in nanoseconds.
struct GuestTime {
  std::uint64_t guest_ns = 0;
  Parts parts{};
  void add(const GuestTime& other) {
    guest_ns += other.guest_ns;
    for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = guest_ns;
    for (const std::uint64_t part : parts) sum += part;
    return sum;
  }
};

// The states of a vCPU, one at a time. The first kParts are the parts of exits, numbered as Part.
enum class State : std::uint8_t {
  kKernel,
  kUser,
  kPreempted,
  kBlocked,
  kHalted,
  kGuest,
  kPaused,   // stopped by the VMM, a signal or a tracer
  kOffline,  // not started, or stopped by the guest: waits for SIPI, PSCI or HSM
  kNotSeen
};
inline constexpr std::size_t kStates = 9;
inline constexpr std::array<std::string_view, kStates> kStateNames = {
    "kernel", "user", "preempted", "blocked", "halted", "guest", "paused", "offline", "not seen"};
// The texts with which JSON keys and column names of each state begin.
inline constexpr std::array<std::string_view, kStates> kStateKeys = {
    "kernel", "user", "preempted", "blocked", "halted", "guest", "paused", "offline", "not_seen"};

// The states whose times the recording's events can show, one bit for each State.
using States = std::bitset<kStates>;
// Returns `ns`; nullopt if `ns` is 0 only because the recording's events cannot show the state.
[[nodiscard]] inline std::optional<std::uint64_t> known_ns(const States& known, State state,
                                                           std::uint64_t ns) {
  if (ns == 0 && !known[static_cast<std::size_t>(state)]) return std::nullopt;
  return ns;
}
// Returns whether all of each exit's time counts as halted, because neither sched_switch nor
// kvm_vcpu_wakeup was recorded. The halted time then includes what the halts cost. `halts`: all of
// the exits are halts.
[[nodiscard]] inline bool are_whole_halts(const States& known, bool halts, const Parts& parts) {
  return halts && known[static_cast<std::size_t>(State::kHalted)] &&
         !known[static_cast<std::size_t>(State::kPreempted)] && cost_ns(parts) == 0;
}
[[nodiscard]] inline std::optional<std::uint64_t> known_ns(const States& known, std::size_t part,
                                                           const Parts& parts, bool halts) {
  const bool is_halted = static_cast<Part>(part) == Part::kHalted;
  if (!is_halted && are_whole_halts(known, halts, parts)) return std::nullopt;
  return known_ns(known, static_cast<State>(part), parts[part]);
}

// An interval of one part of an exit. The intervals of an exit follow one another without gaps.
struct PartInterval {
  Part part = Part::kKernel;
  Timestamp begin, end;
};

// One of QEMU's events inside an exit's user time.
struct HandlerEvent {
  Timestamp at;
  NameId event = kNoName;
  NameId region = kNoName;  // the memory region that was accessed, if the event names one
  bool ends = false;        // the event is traced after the device answered (a region's read)
  // Returns the region's name, else the event's.
  [[nodiscard]] NameId name() const { return region != kNoName ? region : event; }
};

inline constexpr KvmDetail kNoDetail{0, 0, DetailKind::kNone, Access::kNone, false};

// One exit, from kvm_exit to kvm_entry of the same thread (without recorded kvm_exits, the time in
// user space). The parts sum to end - start exactly.
struct ExitSpan {
  static constexpr std::uint32_t kNoUserspaceReason = 0xffffffff;
  // Says if the exit's end is known; if not, `end` is the time up to which the parts are known.
  enum class End : std::uint8_t {
    kKnown,
    kCut,   // ended by a loss, a window, the end of its thread or an event that does not fit
    kOpen,  // still lasts at the recording's end
  };

  Timestamp start, end;
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;  // kNoVcpu: not known when the exit ended
  std::uint32_t cpu = 0;        // the host CPU on which the exit began
  std::uint16_t source = 0;     // index of the source in the timeline
  ExitReason reason;
  std::uint64_t rip = 0;  // 0 if kvm_exit was not recorded
  Parts parts{};
  KvmDetail detail = kNoDetail;
  std::uint32_t userspace_reason = kNoUserspaceReason;
  std::uint32_t vmm_events = 0;
  NameId device = kNoName;     // the memory region that served the exit
  NameId vmm_event = kNoName;  // the handler: the event that tells which device served the exit
  NestedLevel nested = NestedLevel::kGuest;
  std::uint32_t injected = kNoVector;  // the last interrupt vector injected before the entry
  // True if the guest waited for an interrupt, and KVM or user space waited with it. These are the
  // exits with is_halt(), except for a WFE and for a nested guest's HLT that is passed on, and
  // exits of other reasons in which KVM halted.
  bool halt = false;
  End ended = End::kKnown;

  // Filled if a sink selects SpanClass::kIntervals. Both are valid only as long as the span that
  // the sink gets.
  std::span<const PartInterval> intervals;
  std::span<const HandlerEvent> handlers;

  [[nodiscard]] std::uint64_t total() const { return elapsed(start, end); }
};

}  // namespace trapline
