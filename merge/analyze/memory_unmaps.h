// When some thread of the host took memory out of page tables: until that is done KVM maps none of
// the range again, and a vCPU that touches it faults in vain (Linux, kvm_mmu_notifier_*).
//
//   kvm_unmap_hva_range ── unmaps ── ? ── the thread sleeps, calls, unmaps again, or is in a guest
//
// No event tells the end: it is at the latest where the thread does what it cannot do in it. Alone
// this proves nothing, but it tells why the same page fault came again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

class MemoryUnmaps {
 public:
  static constexpr std::size_t kMostOpen = 1024;
  // KVM_SET_USER_MEMORY_REGION, and its second version (linux/kvm.h).
  static constexpr std::array<std::uint32_t, 2> kSetMemory = {0x4020ae46, 0x40a0ae49};

  // Every event of the host.
  void on(const Event& event);
  // Whether one can have lasted at some time of that, which is no later than the last event.
  [[nodiscard]] bool any(Timestamp begin, Timestamp end) const;

 private:
  struct Unmap {
    ThreadId thread{};
    Timestamp begin, end;
  };
  void end(ThreadId thread, Timestamp at);
  void forget() {
    open_.clear();
    last_.reset();
  }
  std::vector<Unmap> open_;
  std::optional<Unmap> last_;  // of those that ended, the last
};

}  // namespace trapline
