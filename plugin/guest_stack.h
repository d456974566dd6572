// The guest's stacks, the frames that lie on them and the tasks that they are recorded as.
//
// A frame knows its return address, where on the stack it is (`slot`: where the return address
// lies) and its function; a return takes the frame at its slot, frames below it (longjmp,
// exceptions) are closed first. Kinds of frames:
//   call    pushed by a call instruction
//   tail    reached by a jump; shares its caller's return, and goes with it
//   event   interrupt, exception or system call; ends with the return from interrupt
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugin/record_buffer.h"

namespace trapline {

// Kernel stacks, in the upper half: 16 KiB, aligned. Others: this far is the same one.
constexpr std::uint64_t kStackBlockBits = 14;
constexpr std::uint64_t kStackReach = 1U << 20;
// A function that calls saves its return address: more frames in a row without a slot are no
// program's, and nobody looks beyond them.
constexpr std::ptrdiff_t kMostLeaves = 64;

[[nodiscard]] constexpr bool is_kernel(std::uint64_t address) { return address >> 63 != 0; }
[[nodiscard]] constexpr std::uint64_t stack_block(std::uint64_t stack_pointer) {
  return (stack_pointer - 1) >> kStackBlockBits;
}
[[nodiscard]] constexpr std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : b - a;
}
[[nodiscard]] constexpr bool within_reach(std::uint64_t a, std::uint64_t b) {
  return distance(a, b) < kStackReach;
}

struct Task {
  Task(std::uint32_t tid, RecordSink& sink, std::size_t capacity = RecordBuffer::kLarge)
      : buffer(tid, sink, capacity) {}
  RecordBuffer buffer;
  std::uint64_t depth = 0;     // open in the records
  std::uint64_t left_out = 0;  // records of calls that had no room, not told yet
  // The stacks whose frames are open in the records, innermost last. One may be there twice: what a
  // kernel called before it went to user mode, and what it does in a system call from there. An
  // entry's frames are those above `base`.
  struct Open {
    struct Stack* stack;
    std::size_t base;
  };
  std::vector<Open> chain;
};

struct Frame {
  enum Flags : std::uint32_t { kTail = 1, kEvent = 2, kSilent = 4, kPending = 8, kCovered = 16 };
  std::uint64_t slot = 0;  // 0: not known (yet)
  std::uint64_t function = 0;
  std::uint64_t ret = 0;
  union {
    std::uint64_t word = 0;  // of its entry's record, once that is written
    std::uint64_t entered;   // while it is pending
  };
  std::uint32_t flags = 0;
  std::uint32_t tails = 0;  // consecutive tail frames up to this one
};

struct StackKey {
  std::uint64_t space = 0;
  std::uint64_t block = 0;
  std::uint64_t level = 0;
  bool operator==(const StackKey&) const = default;
};

struct Stack {
  Frame* top = nullptr;  // the innermost frame; frames[0] is a floor that no slot reaches
  Frame* limit = nullptr;
  std::vector<Frame> frames;
  Task* task = nullptr;
  StackKey key;
  std::uint64_t hint = 0;     // a stack pointer that was on this stack
  std::uint64_t used = 0;     // for the least recently used
  std::uint64_t missing = 0;  // frames above the top that had no room; where slots are not known
  unsigned owner = kNobody;   // the vCPU that is on it: nobody else reads or writes it meanwhile
  static constexpr unsigned kNobody = ~0U;

  [[nodiscard]] Frame* floor() { return frames.data(); }
  [[nodiscard]] const Frame* floor() const { return frames.data(); }
  [[nodiscard]] bool empty() const { return top == frames.data(); }
  [[nodiscard]] std::size_t depth() const { return static_cast<std::size_t>(top - frames.data()); }
  // The innermost slot that is known, else where the stack pointer was.
  [[nodiscard]] std::uint64_t place() const;
  // The innermost handler that is open; the floor when none is.
  [[nodiscard]] Frame* innermost_event() const;
  // Room for so many frames, the floor among them.
  void resize(std::size_t count);
};

// The frames that all stacks together have: a guest recurses as deep, on as many stacks, as it
// likes. Those that each stack begins with are not counted.
class FrameBudget {
 public:
  static constexpr std::size_t kMost = 400'000;  // 19 MB
  [[nodiscard]] bool take(std::size_t count) {
    if (used_.fetch_add(count) + count <= kMost) return true;
    give(count);
    return false;
  }
  void give(std::size_t count) { used_.fetch_sub(count); }

 private:
  std::atomic<std::size_t> used_ = 0;
};

// The stacks that are known: one pool per vCPU or, when stacks have tasks of their own and wander
// from vCPU to vCPU, one for all.
class StackPool {
 public:
  // Without a budget, of several pools, it has one of its own.
  explicit StackPool(bool shared, FrameBudget* budget = nullptr)
      : shared_(shared), budget_(budget != nullptr ? *budget : own_budget_) {}
  // The stack that the stack pointer is on; a new one (without task) when there is none. From now
  // on it is the vCPU's, and `left`, where the vCPU was, is nobody's. What another vCPU is on is
  // not looked at: two that start with the same stack pointer do not share a stack. nullptr: there
  // are kMostShared, and this is none of them.
  [[nodiscard]] Stack* find(const StackKey& key, std::uint64_t stack_pointer, unsigned vcpu,
                            Stack& left);
  // Room for more frames; false where all stacks together have as many as they may.
  [[nodiscard]] bool grow(Stack& stack);
  [[nodiscard]] bool shared() const { return shared_; }
  template <typename Visit>
  void for_each(Visit&& visit) {
    std::scoped_lock lock(mutex_);
    for (auto& [key, stacks] : stacks_)
      for (auto& stack : stacks) visit(*stack);
  }

  static constexpr std::size_t kMaxStacks = 768;
  static constexpr std::size_t kMostShared = 8192;  // each has a task, and a file

 private:
  struct Hash {
    std::size_t operator()(const StackKey& key) const {
      return (key.space ^ key.block * 0x9e3779b97f4a7c15U) + key.level;
    }
  };
  void drop_oldest();

  std::unordered_map<StackKey, std::vector<std::unique_ptr<Stack>>, Hash> stacks_;
  std::size_t count_ = 0;
  std::uint64_t tick_ = 0;
  bool shared_;
  FrameBudget own_budget_;
  FrameBudget& budget_;
  std::mutex mutex_;
};

}  // namespace trapline
