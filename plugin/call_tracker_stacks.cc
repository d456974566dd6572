// Finds the stack that the vCPU is on, and opens and closes entries of the tasks when it changes.
#include "plugin/call_tracker.h"

namespace trapline {

bool CallTracker::same_stack(std::uint64_t stack_pointer) const {
  if (stack_ == &nowhere_) return false;
  const std::uint64_t place = stack_->place();
  if (is_kernel(stack_pointer))
    return stack_block(stack_pointer) == stack_block(place) ||
           (place > stack_pointer && place - stack_pointer < kNear);
  return within_reach(place, stack_pointer);
}

// Returns a stack that stands in for one without a task. Nothing of it is recorded, its calls count
// as lost, and it is empty each time.
Stack* CallTracker::stack_without_task() {
  close_chain(nothing_, 0);
  others_.top = others_.floor();
  others_.missing = 0;
  if (stack_ == &others_) stack_ = &nowhere_;
  return &others_;
}

void CallTracker::resolve(unsigned level, std::uint64_t stack_pointer, Via via) {
  StackKey key{0, 0, level};
  if (is_kernel(stack_pointer))
    key.block = stack_block(stack_pointer);
  else
    key.space = guest_.address_space();
  Stack* stack = pool_.find(key, stack_pointer, vcpu_, *stack_);
  if (stack == nullptr) stack = stack_without_task();
  if (stack->task == nullptr) stack->task = tasks_.task_for(vcpu_, key, stack_pointer);
  if (stack->empty()) stack->hint = stack_pointer;
  if (this->level() != kNoLevel && level != this->level()) {
    if (!leaves_privilege(level))
      via = Via::kEvent;
    else
      via = stack_->empty() ? Via::kReturn : Via::kCall;  // a kernel called user mode
  }
  set_level(level);
  if (stack != stack_) switch_to(stack, via);
}

void CallTracker::switch_to(Stack* stack, Via via) {
  ++counters_.stack_switches;
  if (stack != &others_)
    tasks_.entered(vcpu_, *stack->task);  // first, since it may give back an idle task's buffer
  auto& chain = stack->task->chain;
  std::size_t known = chain.size();
  while (known > 0 && chain[known - 1].stack != stack) --known;
  if (known > 0 && via != Via::kEvent) {
    close_chain(*stack->task, known);
  } else {
    while (!chain.empty() && chain.back().stack->depth() <= chain.back().base) chain.pop_back();
    if (via == Via::kReturn || chain.size() >= kMaxChain) close_chain(*stack->task, 0);
    chain.push_back({stack, stack->depth()});
    stack->top->flags |= Frame::kCovered;
  }
  stack_ = stack;
  stack->task->buffer.use_clock(&clock_);
}

// Keeps the outermost `size` stacks of the chain; closes the entries of the others in the records.
void CallTracker::close_chain(Task& task, std::size_t size) {
  while (task.chain.size() > size) {
    silence(*task.chain.back().stack, task.chain.back().base);
    task.chain.pop_back();
  }
}

// Prepares the end of the top frame: stacks that are further in on the chain are closed first.
void CallTracker::uncover() {
  auto& chain = stack_->task->chain;
  std::size_t keep = chain.size();
  while (keep > 0 && (chain[keep - 1].stack != stack_ || chain[keep - 1].base >= stack_->depth()))
    --keep;
  stack_->top->flags &= ~std::uint32_t{Frame::kCovered};
  if (keep > 0) {
    close_chain(*stack_->task, keep);
  } else if (!chain.empty() && chain.back().stack == stack_) {
    // The entry was closed in the records before; frames that follow at its depth are in the chain.
    chain.back().base = stack_->depth() - 1;
    stack_->top[-1].flags |= Frame::kCovered;
  }
}

// Closes the open entries in the records. The frames stay, because their returns will come.
void CallTracker::silence(Stack& stack, std::size_t base) {
  const std::uint64_t time = clock_.now();
  if (stack.task->left_out != 0) tell_left_out(*stack.task);
  for (Frame* frame = stack.top; frame > stack.floor() + base; --frame) {
    if ((frame->flags & Frame::kPending) != 0) {
      if (time - frame->entered >= options_.min_duration)
        emit_pending(*stack.task);
      else
        frame->flags = (frame->flags | Frame::kSilent) & ~std::uint32_t{Frame::kPending};
    }
    if ((frame->flags & (Frame::kSilent | Frame::kPending)) == 0)
      write_exit(*stack.task, time, frame->function);
    frame->flags |= Frame::kSilent;
  }
}

// Ends frames after the hardware gave a handler a fresh stack: those at and below the stack pointer
// or, with `whole_stack`, all.
void CallTracker::discard_dead(std::uint64_t stack_pointer, bool whole_stack) {
  Frame* alive = stack_->top;
  while (alive != stack_->floor() && (whole_stack || alive->slot <= stack_pointer)) --alive;
  if (alive == stack_->top) return;
  // Writes the exits now: later entries are inside the remaining frames.
  auto& chain = stack_->task->chain;
  std::size_t first = 0;
  while (first < chain.size() && chain[first].stack != stack_) ++first;
  close_chain(*stack_->task, first);
  stack_->top = alive;
  chain.push_back({stack_, stack_->depth()});
  alive->flags |= Frame::kCovered;
}

void CallTracker::begin_anew() {
  pool_.for_each([](Stack& stack) {
    for (Frame* frame = stack.top; frame != stack.floor(); --frame) {
      frame->flags |= Frame::kSilent;
      frame->flags &= ~std::uint32_t{Frame::kPending | Frame::kCovered};
    }
    stack.task = nullptr;
  });
  stack_ = &nowhere_;
  set_level(kNoLevel);
}

void CallTracker::close_all() {
  close_chain(nothing_, 0);
  nothing_.buffer.release();
  pool_.for_each([this](Stack& stack) {
    if (stack.task != nullptr && stack.task->chain.empty()) silence(stack);
  });
  pool_.for_each([this](Stack& stack) {
    if (stack.task == nullptr) return;
    close_chain(*stack.task, 0);
    // Frees each buffer at once: a thousand stacks must not need a thousand buffers at the end.
    stack.task->buffer.release();
  });
}

}  // namespace trapline
