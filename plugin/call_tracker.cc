#include "plugin/call_tracker.h"

#include <algorithm>
#include <utility>

namespace trapline {
namespace {

constexpr std::size_t kFramesOfOthers = 1024;

}  // namespace

CallTracker::CallTracker(unsigned vcpu, GuestState& guest, TaskChooser& tasks,
                         const FunctionFilter& filter, StackPool& pool,
                         const TrackerOptions& options)
    : vcpu_(vcpu),
      guest_(guest),
      tasks_(tasks),
      filter_(filter),
      options_(options),
      pool_(pool),
      left_out_(tasks, vcpu),
      nothing_(0, left_out_, RecordBuffer::kSmall) {
  nowhere_.resize(2);
  nowhere_.limit = nowhere_.floor();
  nowhere_.task = &nothing_;
  others_.resize(kFramesOfOthers);
  others_.task = &nothing_;
  stack_ = &nowhere_;
  set_recording(true);
}

void CallTracker::set_recording(bool on) {
  if (!on && recording()) {
    pool_.for_each([this](Stack& stack) {
      // If stacks move between vCPUs, close only the one that this vCPU is on: another vCPU may be
      // giving back the buffer of an idle stack. Entries that are open there are closed by their
      // return, or at the end.
      if (stack.task == nullptr || (pool_.shared() && &stack != stack_)) return;
      for (auto open = stack.task->chain.rbegin(); open != stack.task->chain.rend(); ++open)
        silence(*open->stack, open->base);
    });
  }
  recording_ = on;
  gate_.fetch_and(~std::uint32_t{kSlow});
  if (!on || calls_missing_ || options_.filtered || options_.text != nullptr ||
      options_.min_duration != 0 || options_.max_depth != ~std::uint64_t{0} ||
      !clock_.uses_counter() || requested_.load() != 0)  // a request that came during this function
    gate_.fetch_or(kSlow);
}

void CallTracker::stop_recording() {
  take_request();
  set_recording(false);
}

void CallTracker::start_recording_in(std::uint64_t function) {
  if (recording() && requested_.load() == 0) return;
  take_request();  // if it is a stop, it closes the open entries
  set_recording(true);
  Frame& top = *stack_->top;
  if (stack_->empty() || top.function != function || (top.flags & Frame::kSilent) == 0 ||
      !filter_.recorded(function))
    return;
  auto& chain = stack_->task->chain;
  if (chain.empty() || chain.back().stack != stack_) return;
  // The frame's entry was closed in the records when the guest went to another stack. It is written
  // again below, so the frame is part of the task's chain again.
  chain.back().base = std::min(chain.back().base, stack_->depth() - 1);
  top.flags &= ~std::uint32_t{Frame::kSilent};
  write_entry(*stack_->task, clock_.now(), top);
}

void CallTracker::take_request() {
  const int requested = requested_.exchange(0);
  if (requested != 0) set_recording(requested == 1);
  if (!calls_missing_.load(std::memory_order_relaxed) || told_of_missing_ ||
      stack_->task == &nothing_)
    return;
  told_of_missing_ = true;
  if (options_.records) stack_->task->buffer.leave_out(0, clock_.now());
}

void CallTracker::write_entry(Task& task, std::uint64_t time, Frame& frame) {
  const std::uint64_t function = frame.function;
  if (options_.text != nullptr && &task == &nothing_) options_.text->leave_out(1);
  if (options_.text != nullptr && &task != &nothing_)
    options_.text->write(true, task.buffer.tid(), task.depth, function);
  frame.word = Record::word(RecordType::kEntry, task.depth, function);
  if (options_.records) task.buffer.add(RecordType::kEntry, time, task.depth, function);
  ++task.depth;
}

void CallTracker::write_exit(Task& task, std::uint64_t time, std::uint64_t function) {
  --task.depth;
  if (options_.text != nullptr && &task == &nothing_) options_.text->leave_out(1);
  if (options_.text != nullptr && &task != &nothing_)
    options_.text->write(false, task.buffer.tid(), task.depth, function);
  if (options_.records) task.buffer.add(RecordType::kExit, time, task.depth, function);
}

// Counts a call that has no frame, because all stacks together have the allowed number of frames.
// If returns do not tell their slot, the stack must count such calls, so that their returns end no
// other frame.
void CallTracker::leave_call_out(Stack& stack, std::uint64_t function, std::uint32_t flags) {
  if (!options_.sites_know_slots && (flags & Frame::kTail) == 0) {
    ++stack.missing;
    set_resync(true);
  }
  if (!recording() || (flags & (Frame::kSilent | Frame::kTail)) != 0 || stack.task == &nothing_ ||
      !filter_.recorded(function))
    return;
  stack.task->left_out += 2;  // the entry and the exit
  if (options_.text != nullptr) options_.text->leave_out(2);
}

void CallTracker::tell_left_out(Task& task) {
  if (options_.records) task.buffer.leave_out(task.left_out, clock_.now());
  task.left_out = 0;
}

void CallTracker::push_slow(std::uint64_t ret, std::uint64_t function, std::uint64_t slot,
                            std::uint32_t flags) {
  Stack& stack = *stack_;
  if (stack.top + 1 >= stack.limit && (&stack == &others_ || !pool_.grow(stack)))
    return leave_call_out(stack, function, flags);
  if (stack.task->left_out != 0) tell_left_out(*stack.task);
  Frame& frame = *++stack.top;
  frame = Frame{slot, function, ret, {0}, flags, 0};
  Task& task = *stack.task;
  if ((flags & Frame::kSilent) != 0) {
    // not recorded
  } else if (!recording() || task.depth >= options_.max_depth || !filter_.recorded(function)) {
    frame.flags |= Frame::kSilent;
  } else if (options_.min_duration != 0) {
    frame.flags |= Frame::kPending;
    frame.entered = clock_.now();
  } else {
    write_entry(task, clock_.now(), frame);
  }
}

// Writes the pending entries, which waited to see whether they last min_duration, the outermost
// first.
void CallTracker::emit_pending(Task& task) {
  for (std::size_t i = 0; i < task.chain.size(); ++i) {
    Stack& stack = *task.chain[i].stack;
    std::size_t end = stack.depth();
    for (std::size_t later = i + 1; later < task.chain.size(); ++later)
      if (task.chain[later].stack == &stack) {
        end = std::min(end, task.chain[later].base);
        break;
      }
    for (std::size_t at = task.chain[i].base + 1; at <= end; ++at) {
      Frame& frame = stack.frames[at];
      if ((frame.flags & Frame::kPending) == 0) continue;
      write_entry(task, frame.entered, frame);
      frame.flags &= ~std::uint32_t{Frame::kPending};
    }
  }
}

void CallTracker::pop_slow() {
  if ((stack_->top->flags & Frame::kCovered) != 0) uncover();
  Frame& frame = *stack_->top;
  Task& task = *stack_->task;
  const std::uint64_t time = clock_.now();
  if ((frame.flags & Frame::kPending) != 0 && time - frame.entered >= options_.min_duration)
    emit_pending(task);
  if ((frame.flags & (Frame::kSilent | Frame::kPending)) == 0)
    write_exit(task, time, frame.function);
  --stack_->top;
  if (stack_->empty()) stack_->hint = frame.slot != 0 ? frame.slot : stack_->hint;
}

void CallTracker::pop_through(Frame* frame) {
  while (stack_->top >= frame) pop_slow();
}

void CallTracker::return_from(Frame* frame) {
  bool tail = (frame->flags & Frame::kTail) != 0;
  pop_through(frame);
  while (tail && !stack_->empty() && (stack_->top->flags & Frame::kEvent) == 0) {
    tail = (stack_->top->flags & Frame::kTail) != 0;
    pop_slow();
  }
}

// Does the rest of the fast path after making room in a full buffer.
void CallTracker::push_with_room(const Site& site, std::uint64_t function, std::uint64_t slot) {
  stack_->task->buffer.make_room();
  push(stack_, stack_->top, site.ret, function, slot);
}

void CallTracker::pop_with_room() {
  stack_->task->buffer.make_room();
  pop_call(stack_, stack_->top);
}

// Ends the callers of a tail frame that the fast path popped: they return together with it, at the
// same time.
void CallTracker::pop_callers_of_tail(std::uint64_t time) {
  Task& task = *stack_->task;
  for (bool tail = true; tail; --stack_->top) {
    const Frame& frame = *stack_->top;
    if ((frame.flags & Frame::kEvent) != 0) return;
    if ((frame.flags & ~Frame::kTail) != 0) return return_from(stack_->top);
    tail = (frame.flags & Frame::kTail) != 0;
    task.buffer.add(RecordType::kExit, time, --task.depth, frame.function);
  }
}

// Ends the frames whose slot is below `slot`. A frame without a known slot ends with a frame
// further out that ends. A handler whose return was not seen ends too, if it ran on this very
// stack.
void CallTracker::unwind_below(std::uint64_t slot) {
  Frame* dead = nullptr;
  std::ptrdiff_t leaves = 0;
  for (Frame* frame = stack_->top; frame != stack_->floor(); --frame) {
    if ((frame->flags & Frame::kEvent) != 0 && (!options_.sites_know_slots || !is_kernel(slot) ||
                                                stack_block(frame->slot) != stack_block(slot)))
      break;
    if (frame->slot == 0 && ++leaves <= kMostLeaves) continue;
    if (frame->slot == 0 || frame->slot >= slot) break;
    leaves = 0;
    dead = frame;
  }
  if (dead == nullptr) return;
  counters_.unwound += static_cast<std::uint64_t>(stack_->top - dead) + 1;
  stack_->missing = 0;
  pop_through(dead);
}

void CallTracker::slow_call(const Site& site, std::uint64_t function, std::uint64_t slot) {
  take_request();
  event_pending_ = false;
  if (slot != 0) {
    if (site.level != level() || !same_stack(slot)) resolve(site.level, slot, Via::kCall);
    unwind_below(slot + 1);
  } else if (site.level != level() || resync()) {
    const std::uint64_t stack_pointer = guest_.stack_pointer();
    if (site.level != level() || !same_stack(stack_pointer))
      resolve(site.level, stack_pointer, Via::kCall);
    // While calls without a frame are open, every call comes here: to search the stack in each
    // would be slow.
    if (stack_->missing == 0) unwind_below(stack_pointer);
    set_resync(stack_->missing != 0);
  }
  push_slow(site.ret, function, slot, 0);
}

// Handles a return to a caller from before the event, where the handler does not come back (a
// kernel ends a user program this way). Both slot and target must match; `slot` 0: not known.
bool CallTracker::leave_event(std::uint64_t slot, std::uint64_t target) {
  if (target == 0) return false;
  Frame* frame = stack_->innermost_event();
  for (; frame != stack_->floor(); --frame)
    if (frame->ret == target && (slot == 0 || frame->slot == slot) &&
        (frame->flags & (Frame::kEvent | Frame::kTail)) == 0)
      break;
  if (frame == stack_->floor()) return false;
  counters_.unwound += static_cast<std::uint64_t>(stack_->top - frame);
  return_from(frame);
  return true;
}

void CallTracker::slow_return(unsigned level, std::uint64_t slot, std::uint64_t target) {
  take_request();
  if (level != this->level() || !same_stack(slot)) resolve(level, slot, Via::kReturn);
  for (Frame* frame = stack_->top; (frame->flags & Frame::kEvent) == 0; --frame) {
    if (frame->slot > slot) break;
    if (frame->slot != slot) continue;
    counters_.unwound += static_cast<std::uint64_t>(stack_->top - frame);
    return return_from(frame);
  }
  const bool called_from_here = stack_->empty() || stack_->top->slot <= slot;
  if ((called_from_here || (stack_->top->flags & Frame::kEvent) != 0) && leave_event(slot, target))
    return;
  if (!called_from_here) {
    // No frame here can return: this is a jump written as a return, as in retpolines.
    if (target != 0 && !calls_missing_ && (!options_.know_starts || filter_.is_start(target))) {
      tail_call(target, stack_->top->slot);
      arrived_ = target;
    }
    return;
  }
  unwind_below(slot + 1);
  ++counters_.unmatched_returns;
}

void CallTracker::slow_return_plain(unsigned level, std::uint64_t target) {
  take_request();
  std::uint64_t stack_pointer = 0;
  if (level != this->level() || resync()) {
    stack_pointer = guest_.stack_pointer();
    if (level != this->level() || !same_stack(stack_pointer))
      resolve(level, stack_pointer, Via::kReturn);
    set_resync(stack_->missing != 0);
  }
  if (stack_->missing != 0) {
    if (--stack_->missing == 0) set_resync(false);
    return;
  }
  for (Frame* frame = stack_->top; (frame->flags & Frame::kEvent) == 0; --frame) {
    if (frame->ret == target && (frame->flags & Frame::kTail) == 0) {
      counters_.unwound += static_cast<std::uint64_t>(stack_->top - frame);
      return return_from(frame);
    }
    if (frame->slot != 0 && frame->slot >= stack_pointer && stack_pointer != 0) break;
  }
  if (leave_event(0, target)) return;
  const bool was_empty = stack_->empty();
  if (stack_pointer != 0) unwind_below(stack_pointer);
  if (was_empty || (stack_->top->flags & Frame::kEvent) != 0) ++counters_.unmatched_returns;
}

void CallTracker::tail_call(std::uint64_t address, std::uint64_t stack_pointer) {
  Frame* top = stack_->top;
  if (stack_->empty()) {
    stack_->hint = stack_pointer;
    return push_slow(0, address, options_.sites_know_slots ? stack_pointer : 0, 0);
  }
  ++counters_.tail_calls;
  if (top->tails >= kMaxTails) {  // a state machine of tail calls: close its past states
    while ((stack_->top->flags & Frame::kTail) != 0) pop_slow();
    top = stack_->top;
  }
  const std::uint32_t tails = top->tails + 1;
  push_slow(top->ret, address, options_.sites_know_slots ? top->slot : 0, Frame::kTail);
  stack_->top->tails = tails;
}

void CallTracker::arrived_without_call(unsigned level, std::uint64_t address) {
  arrived_ = 0;
  // This is the handler of the pending system call, unless the handler is not followed (code=) and
  // the program is running again.
  if (std::exchange(event_pending_, false) && rank(level) < rank(caller_level_)) {
    event_pending_ = true;
    event(level, address);
    arrived_ = 0;
    return;
  }
  // A jump back to the first instruction of the same function, as in a loop.
  if (level == this->level() && stack_->top->function == address && !stack_->empty() && !resync())
    return;
  const std::uint64_t stack_pointer = guest_.stack_pointer();
  if (level == this->level() && stack_->top->slot == stack_pointer && !stack_->empty()) {
    if (!recorded_elsewhere(address, stack_pointer)) tail_call(address, stack_pointer);
    return;
  }
  if (options_.sites_know_slots && !options_.told_of_events && is_event(level, stack_pointer)) {
    event(level, address);
    arrived_ = 0;
    return;
  }
  if (level != this->level() || !same_stack(stack_pointer))
    resolve(level, stack_pointer, Via::kReturn);
  const bool may_be_handler = resync();
  if (may_be_handler) unwind_below(stack_pointer);
  set_resync(false);
  if (recorded_elsewhere(address, stack_pointer)) return;
  if (options_.sites_know_slots && entered_or_resumed(address, stack_pointer)) return;
  if (stack_->top->function == address) return;
  if (may_be_handler && !options_.sites_know_slots) {
    // A jump keeps the innermost function's return address. A kernel that enters a signal's handler
    // gives it another one.
    const std::uint64_t ret = guest_.return_address(stack_pointer);
    if (ret != 0 && ret != stack_->top->ret && stack_->top->ret != 0)
      return push_slow(ret, address, 0, 0);
  }
  tail_call(address, stack_pointer);
}

// Returns whether another vCPU recorded the call of this function, whose thread then moved here
// before the first instruction. Where the kernel is not followed (code=), that vCPU still owns the
// thread's stack, and this vCPU has a second one. A jump keeps the innermost function's return
// address.
bool CallTracker::recorded_elsewhere(std::uint64_t function, std::uint64_t stack_pointer) {
  if (!stack_->has_others) return false;
  const std::uint64_t ret = guest_.return_address(stack_pointer);
  const Frame& top = *stack_->top;
  if (top.ret == ret && (top.slot == stack_pointer || !options_.sites_know_slots)) return false;
  return ret != 0 && pool_.has_call(*stack_, function, stack_pointer, ret);
}

// Handles the start of a function without a call; the stack pointer is at its return address. Below
// the innermost slot, something else entered the function, as a kernel enters a signal handler:
// opens a frame, returns true. At that slot, the program resumed at the first instruction of the
// same function (returns true), or a jump reached another one (returns false).
bool CallTracker::entered_or_resumed(std::uint64_t address, std::uint64_t stack_pointer) {
  Frame* dead = stack_->top + 1;
  while ((dead[-1].flags & Frame::kEvent) == 0 && dead[-1].slot < stack_pointer) --dead;
  if (dead <= stack_->top) {
    counters_.unwound += static_cast<std::uint64_t>(stack_->top - dead) + 1;
    pop_through(dead);
  }
  const Frame& top = *stack_->top;
  if ((top.flags & Frame::kEvent) != 0) return false;
  if (top.slot == stack_pointer) return top.function == address;
  push_slow(0, address, stack_pointer, 0);
  return true;
}

// Returns whether a handler begins at this function start: the processor has pushed what it
// interrupted, and this is not a label on the way back of the open handler.
bool CallTracker::is_event(unsigned level, std::uint64_t stack_pointer) {
  const int from = guest_.interrupted_level_at(stack_pointer);
  if (from < 0) return false;
  if (level != this->level()) return true;
  if (rank(static_cast<unsigned>(from)) != rank(level)) return left_;
  const Frame* frame = stack_->innermost_event();
  return frame == stack_->floor() || stack_pointer - frame->slot > options_.handler_reach;
}

bool CallTracker::frame_known(unsigned level, std::uint64_t frame) {
  take_request();
  if (level != this->level() || !same_stack(frame)) resolve(level, frame, Via::kCall);
  unwind_below(frame);
  for (const Frame* known = stack_->top; known != stack_->floor(); --known)
    if (known->slot == frame && (known->flags & Frame::kEvent) == 0) return true;
  return false;
}

void CallTracker::frame_entered(std::uint64_t frame, std::uint64_t ret, std::uint64_t function) {
  ++counters_.calls;
  push_slow(ret, function, frame, 0);
}

void CallTracker::event(unsigned level, std::uint64_t handler) {
  ++counters_.events;
  const bool raised = this->level() != kNoLevel &&
                      // left_: the guest was on a less privileged level, not seen so far.
                      (level == this->level() ? left_ : !leaves_privilege(level));
  const bool system_call = event_pending_;
  event_pending_ = false;
  const std::uint64_t stack_pointer = guest_.stack_pointer();
  // On the same level the handler nests in the current stack, whichever stack pointer it has.
  if (level != this->level() || left_ || stack_ == &nowhere_)
    resolve(level, stack_pointer, Via::kEvent);
  left_ = false;
  if (raised) {
    // The handler may begin on the interrupted code's stack pointer. Then the stack has only frames
    // of handlers, and each of them ends when the next handler begins.
    const bool borrowed = std::all_of(stack_->floor(), stack_->top + 1, [](const Frame& frame) {
      return (frame.flags & Frame::kEvent) != 0;
    });
    if (borrowed || (!system_call && is_kernel(stack_pointer)))
      discard_dead(stack_pointer, borrowed);
  }
  set_resync(false);
  push_slow(0, handler, stack_pointer, Frame::kEvent);
  arrived_ = handler;
}

void CallTracker::system_return() {
  event_pending_ = false;
  left_ = true;
  if (stack_ != &nowhere_) {
    const auto& chain = stack_->task->chain;
    const std::size_t base = !chain.empty() && chain.back().stack == stack_ ? chain.back().base : 0;
    pop_through(stack_->floor() + base + 1);
  }
  set_resync(!options_.sites_know_slots);
}

void CallTracker::interrupt_return(unsigned level) {
  event_pending_ = false;
  const std::uint64_t stack_pointer = guest_.stack_pointer();
  if (level != this->level()) resolve(level, stack_pointer, Via::kReturn);
  const int to = options_.sites_know_slots ? guest_.interrupted_level_at(stack_pointer) : -1;
  left_ = to >= 0 && rank(static_cast<unsigned>(to)) != rank(level);
  Frame* frame = stack_->innermost_event();
  if (frame != stack_->floor()) pop_through(frame);
  set_resync(!options_.sites_know_slots);
}

}  // namespace trapline
