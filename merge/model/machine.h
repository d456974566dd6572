// Which machine an event happened on, and what a source witnesses of it.
#pragma once

#include <cstdint>

namespace trapline {

// The host whose KVM runs the guests, or one of its guests, numbered from 1.
enum class MachineId : std::uint16_t { kHost = 0 };
[[nodiscard]] constexpr MachineId guest_machine(std::uint16_t number) { return MachineId{number}; }
[[nodiscard]] constexpr bool is_guest(MachineId machine) { return machine != MachineId::kHost; }

// What a source records. Only the loss of a host kernel's events can hide a part of an exit.
enum class Role : std::uint8_t {
  kHostKernel,   // trace.dat of the host: kvm events, scheduling, markers
  kHostProgram,  // a log or a simpletrace file of QEMU
  kGuest,        // functions or kernel events of a guest
};

}  // namespace trapline
