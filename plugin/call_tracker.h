// Follows the calls of one vCPU and writes their entries and exits.
//
// Each guest stack has a Stack (found by privilege level, address space and stack pointer). Each
// task (see TaskChooser) has a chain of the stacks whose frames are open in its records, innermost
// last. When the guest goes to another stack:
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

  // Records a call that pushed its return address at `slot` (x86), or that is about to jump (slot
  // 0).
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

  // x86: records a return that reads its target at `slot`. `target` returns the target, 0 if not
  // known.
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

  // Architectures with a link register: records a return to the caller of the innermost frame.
  // `target` reads the register with the address.
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

  // Records that the link register was stored at `slot`.
  void return_address_saved(std::uint64_t slot) {
    Frame* top = stack_->top;
    if (top->slot == 0) top->slot = slot;
  }
  void stack_pointer_set() { set_resync(true); }

  // Tells that a function's first instruction is about to run. Called only if function starts are
  // known.
  void function_start(unsigned level, std::uint64_t address) {
    if (arrived_ == address) [[likely]] {
      arrived_ = 0;
      return;
    }
    arrived_without_call(level, address);
  }

  // mode=frame-pointer: tells that the innermost frame is at `frame` (the address of its saved
  // frame pointer), so that frames below have ended. Returns whether the frame is known.
  [[nodiscard]] bool frame_known(unsigned level, std::uint64_t frame);
  // Records the entry of a frame that frame_known() did not know; of several, the outermost first.
  void frame_entered(std::uint64_t frame, std::uint64_t ret, std::uint64_t function);

  // Records that the hardware entered a handler; the registers are those of its first instruction.
  void event(unsigned level, std::uint64_t handler);
  void system_call(unsigned level) {
    event_pending_ = true;
    caller_level_ = level;
  }
  void system_return();
  void interrupt_return(unsigned level);

  // Tells that some calls will not be seen from now on. From then on a return must match its frame,
  // and a return that matches none does not count as a call. Any thread may call it.
  void miss_calls() {
    calls_missing_.store(true);
    gate_.fetch_or(kSlow);
  }

  // Starts afresh in a process that was just forked: its records belong to another task and begin
  // with the next call. Open entries stay the parent's.
  void begin_anew();

  // Closes all open entries in the records, at the end or when recording stops.
  void close_all();
  void set_recording(bool on);
  // Start or stop recording at the first instruction of the function of start= or stop=. A request
  // that is pending takes effect first. The call of the function of start= is recorded.
  void start_recording_in(std::uint64_t function);
  void stop_recording();
  // Starts or stops recording from another vCPU's thread. It takes effect at this vCPU's next call
  // or return.
  void request_recording(bool on) {
    requested_.store(on ? 1 : 2);
    // After the request, since set_recording() reads them in the opposite order.
    gate_.fetch_or(kSlow);
  }
  // Returns whether the tracker records, or will once it sees the last request.
  [[nodiscard]] bool will_record() const {
    const int requested = requested_.load();
    return requested != 0 ? requested == 1 : recording();
  }

  [[nodiscard]] const TrackerCounters& counters() const { return counters_; }
  // Sets the clock, before the first call. With a clock that does not use the counter, nothing
  // takes the fast path.
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
  // Counts the records of stacks without a task as left out.
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

  // The guest's level, and flags that keep calls off the fast path. Both are in one word, so that
  // one comparison with a site's level tests them.
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

  // Not inlined, so that the fast path needs no stack frame.
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
  void pop_slow();                 // ends the top frame only
  void pop_through(Frame* frame);  // ends this frame and all above it
  // Ends this frame and all above it, then the callers of which it is a tail call.
  void return_from(Frame* frame);
  void emit_pending(Task& task);
  void unwind_below(std::uint64_t slot);
  [[nodiscard]] bool recorded_elsewhere(std::uint64_t function, std::uint64_t stack_pointer);
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
  // Removes the mode from the level: real mode (level 4 of x86) has the privileges of ring 0.
  [[nodiscard]] static unsigned rank(unsigned level) { return level & 3; }
  [[nodiscard]] bool leaves_privilege(unsigned level) const {
    return options_.higher_level_is_user ? rank(level) > rank(this->level())
                                         : rank(level) < rank(this->level());
  }

  Stack* stack_ = nullptr;
  std::uint64_t arrived_ = 0;
  std::atomic<std::uint32_t> gate_ = kNoLevel;
  // A system call was made on caller_level_, and its handler has not begun.
  bool event_pending_ = false;
  std::uint32_t caller_level_ = 0;
  // The guest left for a less privileged level; level() changes only when a function there is seen.
  bool left_ = false;
  std::atomic<bool> recording_ = true;  // other vCPUs' threads read it
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
  Stack nowhere_;  // the current stack until the first call
  Stack others_;   // the current stack when the real one has no task
  LeftOut left_out_;
  Task nothing_;
};

}  // namespace trapline
