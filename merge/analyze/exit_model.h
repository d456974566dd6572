// The method by which a recording's VM exits are divided into parts. Chosen once for the whole
// recording, from the events that it contains, so that all figures mean the same.
#pragma once

#include <cstdint>
#include <string_view>

#include "merge/model/capabilities.h"
#include "merge/model/exit_span.h"

namespace trapline {

// The event that ends the time in user space.
enum class UserEnd : std::uint8_t {
  kIoctl,   // sys_enter_ioctl with KVM_RUN: exact
  kReload,  // the kernel reloads the guest's state: kvm_fpu load, arm64's timer
  kEntry,   // kvm_entry: user time includes the kernel's way back into the guest
  kNone,    // no event: exits are counted, without durations
};
[[nodiscard]] constexpr std::string_view name_of(UserEnd end) {
  constexpr std::string_view kNames[] = {"ioctl", "reload", "entry", "none"};
  return kNames[static_cast<std::size_t>(end)];
}

struct ExitModel {
  bool from_userspace_exit = false;  // no kvm_exit: spans are only the time in user space
  bool from_vmm = false;  // no kvm_exit, no kvm_userspace_exit: the VMM's events show user time
  bool userspace_exits = true;  // kvm_userspace_exit is recorded
  bool sched_switch = true;     // if false, preempted and blocked time stays in the other parts
  // The first sched_switch may come long after the first recorded event.
  bool late_switches = false;
  bool wakeups = true;  // if false, sleeping threads count as blocked until they run
  bool moves = true;    // if false, a thread may have waited in the queue of another CPU
  bool cycles = false;  // times are cycles: a duration in ns has no place on the timeline
  UserEnd user_end = UserEnd::kEntry;

  [[nodiscard]] bool operator==(const ExitModel&) const = default;

  // Returns whether exits are recorded.
  [[nodiscard]] bool has_exits() const { return !from_userspace_exit || userspace_exits; }
  // Returns whether exits have durations.
  [[nodiscard]] bool durations() const { return user_end != UserEnd::kNone; }
  // Returns the states whose times the events show. The time in other states is not known, which is
  // not the same as 0.
  [[nodiscard]] States known_states() const {
    States known;
    if (!durations()) return known;
    known.set();
    // ExitTracker::known_states() sets kPaused and kOffline if events that show them were recorded.
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
  model.from_vmm = capabilities.vmm_exits;
  model.userspace_exits = capabilities.kvm_userspace_exit;
  model.sched_switch = capabilities.sched_switch;
  model.late_switches = capabilities.sched_switch && capabilities.late_switches;
  model.wakeups = capabilities.wakeups;
  model.moves = capabilities.moves;
  model.user_end = capabilities.run_ioctl  ? UserEnd::kIoctl
                   : capabilities.reload   ? UserEnd::kReload
                   : capabilities.kvm_exit ? UserEnd::kEntry
                                           : UserEnd::kNone;
  return model;
}

}  // namespace trapline
