// State per thread, found by the thread's id. References stay valid; iteration is in the order in
// which threads were added.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "merge/model/event.h"
#include "merge/model/flat_index.h"

namespace trapline {

template <typename State>
class ThreadTable {
 public:
  ThreadTable() = default;
  ThreadTable(ThreadTable&&) = default;  // the states stay where they are
  ThreadTable& operator=(ThreadTable&&) = default;
  ThreadTable(const ThreadTable&) = delete;  // recent_ would point into the other table
  ThreadTable& operator=(const ThreadTable&) = delete;

  [[nodiscard]] State* find(ThreadId thread) {
    Recent& recent = recent_of(thread);
    if (recent.thread != thread) [[unlikely]]
      look_up(thread, recent);
    return recent.state;
  }
  [[nodiscard]] const State* find(ThreadId thread) const {
    const std::uint32_t index = index_of(thread);
    return index == FlatIndex::kNone ? nullptr : &entries_[index].state;
  }
  // Finds or makes the thread's state; nullptr if the table has `most` threads already.
  [[nodiscard]] State* get(ThreadId thread, std::size_t most) {
    State* known = find(thread);
    return known != nullptr ? known : add(thread, most);
  }

  // Removes all threads. The cost is proportional to the threads added since the last call.
  void clear() {
    if (entries_.empty()) return;
    entries_.clear();
    index_ = FlatIndex();
    recent_ = {};
  }

  struct Entry {
    ThreadId thread;
    State state;
  };
  [[nodiscard]] std::deque<Entry>& entries() { return entries_; }
  [[nodiscard]] const std::deque<Entry>& entries() const { return entries_; }

 private:
  // Cache of the last lookups, one per hash slot; also remembers that a thread is not in the table,
  // as it does of thread -1 at first.
  struct Recent {
    ThreadId thread{-1};
    State* state = nullptr;
  };
  static constexpr std::size_t kRecent = 256;
  [[nodiscard]] Recent& recent_of(ThreadId thread) { return recent_[hash(thread) >> 24]; }
  void look_up(ThreadId thread, Recent& recent) {
    const std::uint32_t index = index_of(thread);
    recent = {thread, index == FlatIndex::kNone ? nullptr : &entries_[index].state};
  }
  [[gnu::noinline]] State* add(ThreadId thread, std::size_t most) {
    if (entries_.size() >= most) return nullptr;
    entries_.push_back({thread, State{}});
    index_.add(hash(thread));
    return recent_of(thread).state = &entries_.back().state;
  }
  // The factor is odd, so no two threads have the same hash.
  [[nodiscard]] static std::uint32_t hash(ThreadId thread) {
    return static_cast<std::uint32_t>(thread) * 0x9e3779b1u;
  }
  [[nodiscard]] std::uint32_t index_of(ThreadId thread) const {
    return index_.find(hash(thread), [](std::uint32_t) { return true; });
  }

  std::deque<Entry> entries_;
  FlatIndex index_;
  std::array<Recent, kRecent> recent_;
};

// A LossTable's state, with a mark that the state was looked up since the last loss.
template <typename State>
struct Held : State {
  bool held = false;
};
// A table whose states change at a loss of events. The table lists the states that were looked up
// since the last loss, so that a loss visits only those and not every thread.
template <typename State>
class LossTable : public ThreadTable<Held<State>> {
  using Table = ThreadTable<Held<State>>;

 public:
  [[nodiscard]] State* find(ThreadId thread) { return hold(Table::find(thread)); }
  [[nodiscard]] const State* find(ThreadId thread) const { return Table::find(thread); }
  [[nodiscard]] State* get(ThreadId thread, std::size_t most) {
    return hold(Table::get(thread, most));
  }
  // Handles a loss, which may hide what threads did: calls end_one for each state that was looked
  // up since the last loss.
  void lose(auto&& end_one) {
    for (Held<State>* state : held_) {
      state->held = false;
      end_one(*state);
    }
    held_.clear();
  }

 private:
  State* hold(Held<State>* state) {
    if (state != nullptr && !state->held) [[unlikely]]
      hold_first(*state);
    return state;
  }
  [[gnu::noinline]] void hold_first(Held<State>& state) {
    state.held = true;
    held_.push_back(&state);
  }
  std::vector<Held<State>*> held_;
};

}  // namespace trapline
