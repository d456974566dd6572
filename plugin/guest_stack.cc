#include "plugin/guest_stack.h"

#include <algorithm>

namespace trapline {
namespace {

constexpr std::size_t kFirstFrames = 24;

}  // namespace

std::uint64_t Stack::place() const {
  // Read once: has_call() looks at stacks of other vCPUs.
  const Frame* frame = std::atomic_ref(const_cast<Frame*&>(top)).load(std::memory_order_relaxed);
  const Frame* const last = frame - std::min(kMostLeaves, frame - floor());
  for (; frame != last; --frame)
    if (frame->slot != 0) return frame->slot;
  return hint;
}

Frame* Stack::innermost_event() const {
  Frame* frame = top;  // the floor has this flag, so the loop ends
  while ((frame->flags & Frame::kEvent) == 0) --frame;
  return frame;
}

void Stack::resize(std::size_t count) {
  const auto open = frames.empty() ? 0 : top - floor();
  frames.resize(count);
  frames[0].slot = ~std::uint64_t{0};
  frames[0].flags = Frame::kEvent | Frame::kSilent;  // the floor's flags keep it off the fast path
  top = floor() + open;
  limit = floor() + frames.size();
}

Stack* StackPool::find(const StackKey& key, std::uint64_t stack_pointer, unsigned vcpu,
                       Stack& left) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (shared_) lock.lock();
  left.owner = Stack::kNobody;
  auto& stacks = stacks_[key];
  // Takes the nearest stack: two vCPUs in a handler may both have let go of adjacent stacks.
  Stack* nearest = nullptr;
  std::uint64_t least = 0;
  for (auto& stack : stacks) {
    if (stack->owner != Stack::kNobody) continue;
    const std::uint64_t place = stack->place();
    if (!is_kernel(stack_pointer) && !within_reach(place, stack_pointer)) continue;
    const std::uint64_t apart = distance(place, stack_pointer);
    if (nearest != nullptr && apart >= least) continue;
    nearest = stack.get();
    least = apart;
  }
  if (nearest != nullptr) {
    nearest->used = ++tick_;
    nearest->owner = vcpu;
    return nearest;
  }
  if (shared_ && count_ >= kMostShared) {
    if (stacks.empty()) stacks_.erase(key);
    return nullptr;
  }
  auto fresh = std::make_unique<Stack>();
  fresh->resize(kFirstFrames);
  fresh->key = key;
  fresh->used = ++tick_;
  fresh->owner = vcpu;
  stacks.push_back(std::move(fresh));
  if (shared_ && stacks.size() > 1) stacks.front()->has_others = stacks.back()->has_others = true;
  Stack* result = stacks.back().get();
  if (++count_ > kMaxStacks) drop_oldest();
  return result;
}

bool StackPool::has_call(const Stack& here, std::uint64_t function, std::uint64_t slot,
                         std::uint64_t ret) {
  std::scoped_lock lock(mutex_);
  return std::ranges::any_of(stacks_[here.key], [&](const auto& stack) {
    const Frame* top = std::atomic_ref(stack->top).load(std::memory_order_relaxed);
    return stack.get() != &here && top->function == function && top->ret == ret &&
           (top->slot == slot || (top->slot == 0 && within_reach(stack->place(), slot)));
  });
}

bool StackPool::grow(Stack& stack) {
  if (!budget_.take(stack.frames.size())) return false;
  std::scoped_lock lock(mutex_);  // has_call() may be reading the frames
  stack.resize(stack.frames.size() * 2);
  return true;
}

// Drops the stacks not used in the last kMaxStacks / 2 calls of find() and in no task's chain, so
// that no entry of theirs is open in the records; their frames are forgotten. Shared stacks stay:
// each has its own task, whose chain another vCPU may be changing.
void StackPool::drop_oldest() {
  if (shared_) return;
  std::uint64_t border = tick_ - kMaxStacks / 2;
  for (auto entry = stacks_.begin(); entry != stacks_.end();) {
    std::erase_if(entry->second, [&](const std::unique_ptr<Stack>& stack) {
      if (stack->used > border || stack->task == nullptr) return false;
      const auto& chain = stack->task->chain;
      for (const Task::Open& open : chain)
        if (open.stack == stack.get()) return false;
      budget_.give(stack->frames.size() - kFirstFrames);
      --count_;
      return true;
    });
    entry = entry->second.empty() ? stacks_.erase(entry) : std::next(entry);
  }
}

}  // namespace trapline
