// State per thread, found by its id. References stay valid; iteration is in order of first sight.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

template <typename State>
class ThreadTable {
 public:
  ThreadTable() : slots_(64, kEmpty) {}

  [[nodiscard]] State* find(ThreadId thread) {
    const std::uint32_t index = slots_[slot_of(thread)];
    return index == kEmpty ? nullptr : &entries_[index].state;
  }
  [[nodiscard]] const State* find(ThreadId thread) const {
    const std::uint32_t index = slots_[slot_of(thread)];
    return index == kEmpty ? nullptr : &entries_[index].state;
  }
  // Finds or makes the thread's state; nullptr when `most` threads are there already.
  [[nodiscard]] State* get(ThreadId thread, std::size_t most) {
    const std::size_t slot = slot_of(thread);
    if (slots_[slot] != kEmpty) return &entries_[slots_[slot]].state;
    if (entries_.size() >= most) return nullptr;
    slots_[slot] = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({thread, State{}});
    if (entries_.size() * 2 > slots_.size()) grow();
    return &entries_.back().state;
  }

  struct Entry {
    ThreadId thread;
    State state;
  };
  [[nodiscard]] std::deque<Entry>& entries() { return entries_; }
  [[nodiscard]] const std::deque<Entry>& entries() const { return entries_; }

 private:
  static constexpr std::uint32_t kEmpty = ~std::uint32_t{0};

  // The thread's slot, or the empty one where it belongs.
  [[nodiscard]] std::size_t slot_of(ThreadId thread) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (static_cast<std::uint32_t>(thread) * 0x9e3779b1u >> 7) & mask;
    while (slots_[slot] != kEmpty && entries_[slots_[slot]].thread != thread) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kEmpty);
    for (std::uint32_t i = 0; i < entries_.size(); ++i) slots_[slot_of(entries_[i].thread)] = i;
  }

  std::deque<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace trapline
