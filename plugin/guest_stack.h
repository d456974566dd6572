// The guest's stacks, the frames on them, and the tasks that they are recorded as.
//
// A frame has its return address, its function and its place on the stack (`slot`: the address of
// the return address). A return ends the frame at its slot; frames below that slot (after longjmp
// or an exception) are closed first. Kinds of frames:
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

// Kernel stacks, in the upper half of the address space, are aligned blocks of 2^kStackBlockBits
// bytes (16 KiB). Elsewhere, stack pointers less than kStackReach apart are on the same stack.
constexpr std::uint64_t kStackBlockBits = 14;
constexpr std::uint64_t kStackReach = 1U << 20;
// A function that calls saves its return address, so no program has more frames in a row without a
// slot than this; searches end there.
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
  std::uint64_t depth = 0;     // entries open in the records
  std::uint64_t left_out = 0;  // records of calls that had no room, not reported yet
  // The stacks whose frames are open in the records, innermost last. A stack can occur twice: with
  // what the kernel called before it went to user mode, and with what it calls in a system call
  // from there. An entry's frames are those above `base`.
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
    std::uint64_t word = 0;  // of the entry's record, once it is written
    std::uint64_t entered;   // while the frame is kPending: when it was entered, in ns
  };
  std::uint32_t flags = 0;
  std::uint32_t tails = 0;  // number of consecutive tail frames up to and with this one
};

struct StackKey {
  std::uint64_t space = 0;
  std::uint64_t block = 0;
  std::uint64_t level = 0;
  bool operator==(const StackKey&) const = default;
};

struct Stack {
  // The innermost frame; frames[0] is a floor, whose slot no stack pointer reaches.
  Frame* top = nullptr;
  Frame* limit = nullptr;
  std::vector<Frame> frames;
  Task* task = nullptr;
  StackKey key;
  std::uint64_t hint = 0;  // a stack pointer that was on this stack
  std::uint64_t used = 0;  // time of last use, to find the least recently used stack
  // Number of calls above the top for which there was no frame; counted only if returns do not tell
  // their slot.
  std::uint64_t missing = 0;
  // vCPUs share the stacks and there are others with this key.
  std::atomic<bool> has_others = false;
  // The vCPU on this stack; only its thread changes the stack meanwhile.
  unsigned owner = kNobody;
  static constexpr unsigned kNobody = ~0U;

  [[nodiscard]] Frame* floor() { return frames.data(); }
  [[nodiscard]] const Frame* floor() const { return frames.data(); }
  [[nodiscard]] bool empty() const { return top == frames.data(); }
  [[nodiscard]] std::size_t depth() const { return static_cast<std::size_t>(top - frames.data()); }
  // Returns the innermost known slot, else the last stack pointer.
  [[nodiscard]] std::uint64_t place() const;
  // Returns the innermost open handler; the floor if there is none.
  [[nodiscard]] Frame* innermost_event() const;
  // Makes room for `count` frames, the floor included.
  void resize(std::size_t count);
};

// Limits the frames of all stacks together: a guest recurses as deep, on as many stacks, as it
// likes. The frames that each stack starts with do not count.
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

// All known stacks. Each vCPU has a pool of its own; if stacks have tasks of their own and move
// between vCPUs, all vCPUs share one pool.
class StackPool {
 public:
  // Several pools can share a budget; without one, the pool has its own.
  explicit StackPool(bool shared, FrameBudget* budget = nullptr)
      : shared_(shared), budget_(budget != nullptr ? *budget : own_budget_) {}
  // Returns the stack that the stack pointer is on, or makes a new one (without a task). The vCPU
  // now owns the stack, and the stack `left` that it was on has no owner. Stacks that another vCPU
  // owns are not considered, so two vCPUs that start with the same stack pointer do not share a
  // stack. Returns nullptr if the stack is new and kMostShared exist already.
  [[nodiscard]] Stack* find(const StackKey& key, std::uint64_t stack_pointer, unsigned vcpu,
                            Stack& left);
  // Returns whether the innermost frame of another stack with the key of `here` is a call of
  // `function` at `slot` that returns to `ret`. The vCPU on that stack may be changing other frames
  // meanwhile, but not this one, because no two threads have one stack pointer. Its thread writes
  // without atomics, which cost 6 % of a guest that only calls. A word that it is just writing is
  // of another frame, so at worst a call is not found; the frames stay where they are, since grow()
  // takes the mutex.
  [[nodiscard]] bool has_call(const Stack& here, std::uint64_t function, std::uint64_t slot,
                              std::uint64_t ret);
  // Makes room for more frames; false when all stacks together have reached the limit.
  [[nodiscard]] bool grow(Stack& stack);
  [[nodiscard]] bool shared() const { return shared_; }
  template <typename Visit>
  void for_each(Visit&& visit) {
    std::scoped_lock lock(mutex_);
    for (auto& [key, stacks] : stacks_)
      for (auto& stack : stacks) visit(*stack);
  }

  static constexpr std::size_t kMaxStacks = 768;
  static constexpr std::size_t kMostShared = 8192;  // each stack has a task and a file

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
