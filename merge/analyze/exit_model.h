// How a recording lets VM exits be cut into parts. Chosen once for the whole recording, from the
// witnesses that it holds, so that all of its figures mean the same.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "merge/model/capabilities.h"
#include "merge/model/event.h"
#include "merge/model/names.h"

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
  bool wakeups = true;               // without: sleeping threads are blocked until they run
  UserEnd user_end = UserEnd::kEntry;

  // Whether an exit has a duration.
  [[nodiscard]] bool durations() const { return user_end != UserEnd::kNone; }
};

[[nodiscard]] constexpr ExitModel choose_exit_model(const Traits& traits) {
  ExitModel model;
  model.from_userspace_exit = !traits.kvm_exit;
  model.userspace_exits = traits.kvm_userspace_exit;
  model.sched_switch = traits.sched_switch;
  model.wakeups = traits.wakeups;
  model.user_end = traits.run_ioctl  ? UserEnd::kIoctl
                   : traits.reload   ? UserEnd::kReload
                   : traits.kvm_exit ? UserEnd::kEntry
                                     : UserEnd::kNone;
  return model;
}

// The disjoint parts of an exit.
enum class Part : std::uint8_t { kKernel, kUser, kPreempted, kBlocked };
inline constexpr std::size_t kParts = 4;
inline constexpr std::array<std::string_view, kParts> kPartNames = {"kernel", "user", "preempted",
                                                                    "blocked"};
using Parts = std::array<std::uint64_t, kParts>;  // nanoseconds, indexed by Part

// Why the guest was left: the numbers of KvmExit, or of KvmUserspaceExit in the fallback.
struct ExitReason {
  static constexpr std::uint32_t kIsaUserspace = 0xffff;
  std::uint32_t reason = 0;
  std::uint32_t isa = 0;
  std::uint32_t exception_class = 0;
  friend bool operator==(const ExitReason&, const ExitReason&) = default;
};
// HLT, WFI, WFE: the guest has nothing to do, its exit is not overhead.
[[nodiscard]] constexpr bool is_halt(const ExitReason& exit) {
  constexpr std::uint32_t kVmxHlt = 12, kSvmHlt = 0x78, kArm64Trap = 2, kWfx = 1, kUserHlt = 5;
  switch (exit.isa) {
    case 1:
      return (exit.reason & 0xffff) == kVmxHlt;
    case 2:
      return exit.reason == kSvmHlt;
    case kIsaArm64:
      return exit.reason == kArm64Trap && exit.exception_class == kWfx;
    case ExitReason::kIsaUserspace:
      return exit.reason == kUserHlt;
    default:
      return false;
  }
}

inline constexpr KvmDetail kNoDetail{0, 0, DetailKind::kNone, Access::kNone, false};

// One exit, from kvm_exit to kvm_entry of the same thread (fallback: the time in user space).
// parts sum to end - start exactly.
struct ExitSpan {
  static constexpr std::uint32_t kNoUserspaceReason = 0xffffffff;

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
  std::uint32_t qemu_events = 0;
  NameId device = kNoName;             // the memory region that served it
  NameId qemu_event = kNoName;         // the handler: the event that tells who served it
  std::uint32_t injected = kNoVector;  // the last interrupt vector injected before the entry
  ThreadId preempted_by{};             // who ran when it was first preempted; 0: it was not

  [[nodiscard]] std::uint64_t total() const { return elapsed(start, end); }
};

}  // namespace trapline
