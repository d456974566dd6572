// Why a guest was left, and what the reason alone tells.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "merge/model/event.h"

namespace trapline {

// What the VMM is asked for: KVM_EXIT_* of linux/kvm.h.
inline constexpr std::uint32_t kUserspaceIo = 2, kUserspaceMmio = 6;

// Why the guest was left: the numbers of KvmExit, or of KvmUserspaceExit in the fallback.
struct ExitReason {
  static constexpr std::uint32_t kIsaUserspace = 0xffff;
  std::uint32_t reason = 0;
  std::uint32_t isa = 0;
  std::uint32_t exception_class = 0;
  friend auto operator<=>(const ExitReason&, const ExitReason&) = default;
};
// In one word, for its numbers are small. The source that names it is in the last byte.
[[nodiscard]] constexpr std::uint64_t packed(const ExitReason& reason, std::uint16_t source) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xff) << 8 | (source & 0xff);
}
// HLT, idle-hlt, WFx, WFI: as far as the reason alone tells, the guest waits for an interrupt.
[[nodiscard]] constexpr bool is_halt(const ExitReason& exit) {
  constexpr std::uint32_t kVmxHlt = 12, kSvmHlt = 0x78, kSvmIdleHlt = 0xa6;
  constexpr std::uint32_t kArm64Trap = 2, kWfx = 1, kUserHlt = 5;
  switch (exit.isa) {
    case kIsaVmx:
      return (exit.reason & 0xffff) == kVmxHlt;
    case kIsaSvm:
      return exit.reason == kSvmHlt || exit.reason == kSvmIdleHlt;
    case kIsaArm64:
      return exit.reason == kArm64Trap && exit.exception_class == kWfx;
    case kIsaRiscv:
      return exit.reason == kRiscvVirtualInstruction && exit.exception_class == kRiscvWfi;
    case ExitReason::kIsaUserspace:
      return exit.reason == kUserHlt;
    default:
      return false;
  }
}

// VMX's log of the pages that the guest wrote to is full.
[[nodiscard]] constexpr bool is_dirty_log(const ExitReason& exit) {
  constexpr std::uint32_t kVmxPmlFull = 62;
  return exit.isa == kIsaVmx && (exit.reason & 0xffff) == kVmxPmlFull;
}

// The host was interrupted: the instruction at rip was not carried out.
[[nodiscard]] constexpr bool is_interrupt(const ExitReason& exit) {
  constexpr std::uint32_t kVmxExternalInterrupt = 1, kVmxPreemptionTimer = 52;
  constexpr std::uint32_t kSvmIntr = 0x60, kSvmNmi = 0x61, kArm64Irq = 0;
  switch (exit.isa) {
    case kIsaVmx:
      return (exit.reason & 0xffff) == kVmxExternalInterrupt ||
             (exit.reason & 0xffff) == kVmxPreemptionTimer;
    case kIsaSvm:
      return exit.reason == kSvmIntr || exit.reason == kSvmNmi;
    case kIsaArm64:
      return exit.reason == kArm64Irq;
    case kIsaRiscv:
      return (exit.reason & kRiscvInterrupt) != 0;
    default:
      return false;
  }
}

[[nodiscard]] constexpr bool is_x86(const ExitReason& exit) {
  return exit.isa == kIsaVmx || exit.isa == kIsaSvm;
}

// The architectures whose confidential guests hide their registers: rip is 0 then, and this stands
// in the place of the function's name.
inline constexpr std::string_view kHiddenFunction = "hidden (confidential guest)";
[[nodiscard]] constexpr bool may_hide_rip(const ExitReason& exit) { return is_x86(exit); }

}  // namespace trapline
