// A guest that runs a guest of its own: kvm_nested_*.
#pragma once

#include <cstdint>

namespace trapline {

// A step of a guest that runs a guest of its own (kvm_nested_*).
enum class NestedStep : std::uint8_t {
  kEnter,   // the guest's own guest is entered
  kExit,    // the exit is one of the guest's own guest
  kPassOn,  // and is passed on to the guest's KVM
};
struct KvmNested {
  NestedStep step;
};

// Whose exit it is, where a guest runs a guest of its own.
enum class NestedLevel : std::uint8_t {
  kGuest,           // the guest's
  kGuestEnters,     // the guest's, which enters the nested guest: VMRUN, VMLAUNCH, VMRESUME
  kNested,          // the nested guest's: the host alone served it
  kNestedPassedOn,  // the nested guest's, passed on to the guest's KVM
};

}  // namespace trapline
