// How a recording lets VM exits be cut into parts. Chosen once for the whole recording, from the
// witnesses that it holds, so that all of its figures mean the same.
#pragma once

#include <cstdint>
#include <string_view>

#include "merge/model/capabilities.h"
#include "merge/model/exit_span.h"

namespace trapline {

// What ends the time in user space.
enum class UserEnd : std::uint8_t {
  kIoctl,   // sys_enter_ioctl with KVM_RUN: exact
  kReload,  // the kernel restores the guest's state: kvm_fpu load, arm64's timer
  kEntry,   // kvm_entry: user time holds the kernel's way back into the guest too
  kNone,    // nothing tells: exits are counted, without durations
};
[[nodiscard]] constexpr std::string_view name_of(UserEnd end) {
  constexpr std::string_view kNames[] = {"ioctl", "reload", "entry", "none"};
  return kNames[static_cast<std::size_t>(end)];
}

struct ExitModel {
  bool from_userspace_exit = false;  // no kvm_exit: spans are the time in user space alone
  bool userspace_exits = true;       // kvm_userspace_exit is recorded
  bool sched_switch = true;          // without: preempted and blocked stay in the other parts
  bool late_switches = false;        // the first may come long after what was recorded first
  bool wakeups = true;               // without: sleeping threads are blocked until they run
  bool cycles = false;               // a time in nanoseconds cannot be placed among the events
  UserEnd user_end = UserEnd::kEntry;

  [[nodiscard]] bool operator==(const ExitModel&) const = default;

  // Whether an exit has a duration.
  [[nodiscard]] bool durations() const { return user_end != UserEnd::kNone; }
  // The states whose times the events tell. In the others no time is known, which is not 0.
  [[nodiscard]] States known_states() const {
    States known;
    if (!durations()) return known;
    known.set();
    // Events that a recording need not hold tell of these: ExitTracker::known_states().
    known.reset(static_cast<std::size_t>(State::kPaused));
    known.reset(static_cast<std::size_t>(State::kOffline));
    for (const State state : {State::kGuest, State::kKernel, State::kHalted})
      known.set(static_cast<std::size_t>(state), !from_userspace_exit);
    known.set(static_cast<std::size_t>(State::kUser), userspace_exits);
    for (const State state : {State::kPreempted, State::kBlocked})
      known.set(static_cast<std::size_t>(state), sched_switch);
    return known;
  }
};

[[nodiscard]] constexpr ExitModel choose_exit_model(const Capabilities& capabilities,
                                                    bool cycles = false) {
  ExitModel model;
  model.cycles = cycles;
  model.from_userspace_exit = !capabilities.kvm_exit;
  model.userspace_exits = capabilities.kvm_userspace_exit;
  model.sched_switch = capabilities.sched_switch;
  model.late_switches = capabilities.sched_switch && capabilities.late_switches;
  model.wakeups = capabilities.wakeups;
  model.user_end = capabilities.run_ioctl  ? UserEnd::kIoctl
                   : capabilities.reload   ? UserEnd::kReload
                   : capabilities.kvm_exit ? UserEnd::kEntry
                                           : UserEnd::kNone;
  return model;
}

}  // namespace trapline
