// Follows the calls of one vCPU and writes their entries and exits.
//
// Each guest stack has a Stack (found by privilege level, address space and stack pointer), each
// task (see TaskChooser) the chain of the stacks whose frames are open in its records, innermost
// last. Going to another stack:
//   by a call or an event    the new stack nests: an interrupt stack, a system call
//   by a return              the guest switched threads: what was open is closed in the records
//                            ("silent" from then on), so that every task stays balanced and every
//                            call is counted once
//
// Hot: call(), return_to(), return_plain(). No allocation, lock, log or exception in them.
#pragma once

#include <atomic>
#include <cstdint>

#include "plugin/guest_stack.h"
#include "plugin/record_clock.h"
#include "plugin/tracker_host.h"

namespace trapline {

class CallTracker {
 public:
  CallTracker(unsigned vcpu, GuestState& guest, TaskChooser& tasks, const FunctionFilter& filter,
              StackPool& pool, const TrackerOptions& options);

  // A call pushed its return address at `slot` (x86), or is about to jump (slot 0).
  void call(const Site& site, std::uint64_t function, std::uint64_t slot) {
    arrived_ = function;
    ++counters_.calls;
    Stack* stack = stack_;
    Frame* top = stack->top;
    if (gate() != site.level || top + 1 >= stack->limit ||
        ((top->slot - slot) - 1 >= kNear && slot != 0)) [[unlikely]]
      return slow_call(site, function, slot);
    if (stack->task->buffer.full()) [[unlikely]]
      return push_with_room(site, function, slot);
    push(stack, top, site.ret, function, slot);
  }

  // x86: a return reads its target at `slot`. `value`: the target, 0 when not known.
  template <typename ReadTarget>
  void return_at(unsigned level, std::uint64_t slot, ReadTarget target) {
    ++counters_.returns;
    Frame* top = stack_->top;
    if (top->slot != slot || gate() != level || (top->flags & ~Frame::kTail) != 0) [[unlikely]]
      return slow_return_at(level, slot, target);
    if (stack_->task->buffer.full()) [[unlikely]]
      return pop_with_room();
    pop_call(stack_, top);
  }

  // Link-register architectures: a return to where the innermost frame came from. `target` reads
  // the register that is jumped to.
  template <typename ReadTarget>
  void return_plain(unsigned level, ReadTarget target) {
    ++counters_.returns;
    Frame* top = stack_->top;
    if (gate() != level || (top->flags & ~Frame::kTail) != 0) [[unlikely]]
      return slow_return_to(level, target);
    if (stack_->task->buffer.full()) [[unlikely]]
      return pop_with_room();
    pop_call(stack_, top);
  }

  // The link register was stored at `slot`.
  void return_address_saved(std::uint64_t slot) {
    Frame* top = stack_->top;
    if (top->slot == 0) top->slot = slot;
  }
  void stack_pointer_set() { set_resync(true); }

  // A function's first instruction is about to run; called when starts are known.
  void function_start(unsigned level, std::uint64_t address) {
    if (arrived_ == address) [[likely]] {
      arrived_ = 0;
      return;
    }
    arrived_without_call(level, address);
  }

  // mode=frame-pointer: the innermost frame lies at `frame` (its saved frame pointer); frames below
  // it are over. True when it was known.
  [[nodiscard]] bool frame_known(unsigned level, std::uint64_t frame);
  // A frame inside of the last one that was asked for.
  void frame_entered(std::uint64_t frame, std::uint64_t ret, std::uint64_t function);

  // The hardware entered a handler; registers are those of its first instruction.
  void event(unsigned level, std::uint64_t handler);
  void system_call(unsigned level) {
    event_pending_ = true;
    caller_level_ = level;
  }
  void system_return();
  void interrupt_return(unsigned level);

  // Some calls will not be seen from now on: returns are held to what they return from, and what
  // fits no call is none. From any thread.
  void miss_calls() {
    calls_missing_.store(true);
    gate_.fetch_or(kSlow);
  }

  // In a process that was just forked: its records are another task's, and begin with the next
  // call; what is open stays the parent's.
  void begin_anew();

  // At the end or when recording stops: closes what is open in the records.
  void close_all();
  void set_recording(bool on);
  // At the first instruction of the function that start= or stop= names, after what was requested
  // before. The call of the one that starts it counts.
  void start_recording_in(std::uint64_t function);
  void stop_recording();
  // From another vCPU's thread: takes effect at this one's next call or return.
  void request_recording(bool on) {
    requested_.store(on ? 1 : 2);
    gate_.fetch_or(kSlow);  // after the request: set_recording() looks in the other order
  }
  // It does, or will once it sees what was requested.
  [[nodiscard]] bool will_record() const {
    const int requested = requested_.load();
    return requested != 0 ? requested == 1 : recording();
  }

  [[nodiscard]] const TrackerCounters& counters() const { return counters_; }
  // Before the first call. One that does not use the counter keeps all off the fast path.
  void use_clock(const RecordClock& clock) {
    clock_ = clock;
    set_recording(recording());
  }
  RecordClock& clock() { return clock_; }
  [[nodiscard]] unsigned vcpu() const { return vcpu_; }
  [[nodiscard]] bool recording() const { return recording_.load(std::memory_order_relaxed); }
  [[nodiscard]] Task* task() { return stack_->task; }

  static constexpr std::uint64_t kNear = 4096;
  static constexpr std::size_t kMaxChain = 6;
  static constexpr std::uint32_t kMaxTails = 4096;

 private:
  enum class Via { kCall, kReturn, kEvent };
  // Where the records of stacks without a task go.
  class LeftOut final : public RecordSink {
   public:
    LeftOut(TaskChooser& tasks, unsigned vcpu) : tasks_(tasks), vcpu_(vcpu) {}
    std::size_t append(std::uint32_t, std::span<const Record> records) override {
      tasks_.left_out(vcpu_, records.size());
      return records.size_bytes();
    }
    void release(std::uint32_t) override {}

   private:
    TaskChooser& tasks_;
    unsigned vcpu_;
  };

  // The level that the guest is on, and what keeps it off the fast path: one comparison with a
  // site's level tells both.
  enum Gate : std::uint32_t {
    kLevel = 0xff,     // kNoLevel until the first call
    kResync = 1 << 8,  // the stack pointer may be on another stack
    kSlow = 1 << 9,    // filters, limits or a stop; other vCPUs' threads set it
  };
  static constexpr std::uint32_t kNoLevel = kLevel;
  [[nodiscard]] std::uint32_t gate() const { return gate_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t level() const { return gate() & kLevel; }
  [[nodiscard]] bool resync() const { return (gate() & kResync) != 0; }
  void set_level(std::uint32_t level) { gate_.fetch_xor(level ^ this->level()); }
  void set_resync(bool on) {
    if (on != resync()) gate_.fetch_xor(kResync);
  }

  void push(Stack* stack, Frame* top, std::uint64_t ret, std::uint64_t function,
            std::uint64_t slot) {
    Task* task = stack->task;
    const std::uint64_t word = Record::word(RecordType::kEntry, task->depth++, function);
    Frame* frame = top + 1;
    frame->slot = slot;
    frame->function = function;
    frame->ret = ret;
    frame->word = word;
    frame->flags = 0;
    frame->tails = 0;
    stack->top = frame;
    task->buffer.put(clock_.counter_now(), word);
  }
  void pop_call(Stack* stack, Frame* top) {
    Task* task = stack->task;
    const std::uint64_t time = clock_.counter_now();
    --task->depth;
    stack->top = top - 1;
    task->buffer.put(time, Record::exit_of(top->word));
    if ((top->flags & Frame::kTail) != 0) [[unlikely]]
      pop_callers_of_tail(time);
  }

  // Out of line, so that the fast path needs no stack.
  template <typename ReadTarget>
  [[gnu::noinline]] void slow_return_at(unsigned level, std::uint64_t slot, ReadTarget target) {
    slow_return(level, slot, target());
  }
  template <typename ReadTarget>
  [[gnu::noinline]] void slow_return_to(unsigned level, ReadTarget target) {
    slow_return_plain(level, target());
  }
  void push_with_room(const Site& site, std::uint64_t function, std::uint64_t slot);
  void pop_with_room();
  void slow_call(const Site& site, std::uint64_t function, std::uint64_t slot);
  void slow_return(unsigned level, std::uint64_t slot, std::uint64_t target);
  void arrived_without_call(unsigned level, std::uint64_t address);
  void slow_return_plain(unsigned level, std::uint64_t target);
  void pop_callers_of_tail(std::uint64_t time);
  bool leave_event(std::uint64_t slot, std::uint64_t target);
  void take_request();
  void leave_call_out(Stack& stack, std::uint64_t function, std::uint32_t flags);
  void tell_left_out(Task& task);
  [[nodiscard]] Stack* stack_without_task();
  void push_slow(std::uint64_t ret, std::uint64_t function, std::uint64_t slot,
                 std::uint32_t flags);
  void pop_slow();                 // the top frame only
  void pop_through(Frame* frame);  // down to and with this one
  void return_from(Frame* frame);  // pop_through, and the callers that it is the tail of
  void emit_pending(Task& task);
  void unwind_below(std::uint64_t slot);
  bool entered_or_resumed(std::uint64_t address, std::uint64_t stack_pointer);
  void tail_call(std::uint64_t address, std::uint64_t stack_pointer);
  void resolve(unsigned level, std::uint64_t stack_pointer, Via via);
  void switch_to(Stack* stack, Via via);
  void silence(Stack& stack, std::size_t base = 0);
  void close_chain(Task& task, std::size_t size);
  void uncover();
  void discard_dead(std::uint64_t stack_pointer, bool whole_stack);
  [[nodiscard]] bool is_event(unsigned level, std::uint64_t stack_pointer);
  void write_entry(Task& task, std::uint64_t time, Frame& frame);
  void write_exit(Task& task, std::uint64_t time, std::uint64_t function);
  [[nodiscard]] bool same_stack(std::uint64_t stack_pointer) const;
  // Real mode (level 4 of x86) may do all that ring 0 may.
  [[nodiscard]] static unsigned rank(unsigned level) { return level & 3; }
  [[nodiscard]] bool leaves_privilege(unsigned level) const {
    return options_.higher_level_is_user ? rank(level) > rank(this->level())
                                         : rank(level) < rank(this->level());
  }

  Stack* stack_ = nullptr;
  std::uint64_t arrived_ = 0;
  std::atomic<std::uint32_t> gate_ = kNoLevel;
  bool event_pending_ = false;  // a system call, made on caller_level_
  std::uint32_t caller_level_ = 0;
  bool left_ = false;  // for a less privileged level; level() stays until a function there is seen
  std::atomic<bool> recording_ = true;  // other vCPUs' threads look
  std::atomic<int> requested_ = 0;
  std::atomic<bool> calls_missing_ = false;  // other vCPUs' threads set it
  bool told_of_missing_ = false;
  RecordClock clock_;
  TrackerCounters counters_;
  unsigned vcpu_;
  GuestState& guest_;
  TaskChooser& tasks_;
  const FunctionFilter& filter_;
  TrackerOptions options_;
  StackPool& pool_;
  Stack nowhere_;  // until the first call
  Stack others_;   // stands for each stack that has no task
  LeftOut left_out_;
  Task nothing_;
};

}  // namespace trapline
