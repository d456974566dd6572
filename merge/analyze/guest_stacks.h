// The guest's call stacks, from the records of its function entries and exits, and what each
// function's own time was spent on.
//
//   call f      push f ──┐            own time of the innermost function:
//   call g      push g   │              guest      between records, while the vCPU runs
//   kvm_exit             │ in exit      the exit's parts: kernel, user, preempted, blocked
//   kvm_entry            ┘
//   return g    pop to g's depth
//
// Where a guest's tasks take turns on a vCPU (GuestCall::task), each has a stack of its own: the
// one that counts is that of the task whose records came last, none while that is off the CPU.
//
// Records that do not fit (a return without its call) resynchronise by depth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/function_call.h"
#include "merge/analyze/stack_tree.h"
#include "merge/analyze/vcpu_time.h"
#include "merge/model/capabilities.h"
#include "merge/model/exit_span.h"
#include "merge/model/thread_table.h"

namespace trapline {

// How it is known that a thread runs the guest.
enum class GuestRuns : std::uint8_t {
  kBetweenExits,  // from kvm_entry to kvm_exit
  kOnThread,      // no exits are recorded (TCG): while the thread is on a CPU, VcpuTime
};
[[nodiscard]] constexpr bool has_exits(const Capabilities& has) {
  return has.kvm_exit || has.kvm_userspace_exit;
}
[[nodiscard]] constexpr GuestRuns choose_guest_runs(const Capabilities& has) {
  return has_exits(has) ? GuestRuns::kBetweenExits : GuestRuns::kOnThread;
}

class GuestStacks {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::uint32_t kMostDepth = 1024;

  // `keep_calls`: ended() tells the calls that an event ended.
  explicit GuestStacks(Names& names, bool keep_calls = false,
                       GuestRuns runs = GuestRuns::kBetweenExits)
      : stacks_(names), keep_calls_(keep_calls), runs_(runs) {}

  // GuestCall, KvmExit, KvmEntry and Lost events; others do nothing.
  void on(const Event& event);
  // GuestRuns::kOnThread: the scheduler's and QEMU's events; `vmm_event` is what a Marker is, or
  // nullptr.
  void on_host(const Event& event, const VmmEvent* vmm_event);
  // The calls that the last event ended, the innermost first.
  [[nodiscard]] const std::vector<FunctionCall>& ended() const { return ended_; }
  // The call that the last event began; its `end` is not known yet. Nothing for other events.
  [[nodiscard]] std::optional<FunctionCall> begun() const;
  // After the last event: what is open ends there, not complete.
  void finish(Timestamp at);
  // The exit that a KvmEntry ended: its parts belong to the function it interrupted.
  void on_span(const ExitSpan& span, StackId stack);

  // The stack of the vCPU's thread now, kNoStack where no record covers it.
  [[nodiscard]] StackId stack_of(ThreadId thread) const;
  // As StackTree has them.
  [[nodiscard]] StackId with_innermost(StackId stack, NameId function) {
    return stacks_.with_innermost(stack, function);
  }
  [[nodiscard]] NameId innermost(StackId stack) const { return stacks_.innermost(stack); }
  [[nodiscard]] std::string text(StackId stack) const { return stacks_.text(stack); }
  // Indexed by NameId.
  [[nodiscard]] const std::vector<GuestFunctionTimes>& functions() const { return functions_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  // GuestRuns::kOnThread: the threads that made the records, their `exits` are calls.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] const CallCounters& counters() const { return counters_; }

 private:
  struct Frame {
    StackId stack = kNoStack;
    std::uint32_t depth = 0;
    bool seen = false;  // its call was recorded; else it stands for all up to the next one's depth
    Timestamp begin;
    std::uint64_t losses = 0;  // before it began
    OwnTime own = {};          // GuestRuns::kOnThread
  };
  using Frames = std::vector<Frame>;  // by depth
  struct Thread {
    Frames frames;                  // of the thread itself
    std::uint64_t task = 0;         // that runs; 0: none
    Frames* task_frames = nullptr;  // its, in tasks_
    bool in_guest = false;          // since `mark`, as far as the recording shows
    bool held = false;              // among held_
    Timestamp mark;
    MachineId machine = MachineId::kHost;  // of the records
    VcpuTime time;                         // GuestRuns::kOnThread
    VcpuTotals totals;                     // GuestRuns::kOnThread
  };
  void cut(Frames& frames, std::uint32_t depth, const Event& event, std::uint64_t task,
           bool is_return);
  void on_call(const Event& event, const GuestCall& call);
  void account(Thread& thread, Timestamp at);
  void account_thread(Thread& thread, Timestamp at);
  void on_lost(const Event& event);
  template <typename ThisThread>  // const or not
  [[nodiscard]] static auto& frames_of(ThisThread& thread) {
    return thread.task == 0 ? thread.frames : *thread.task_frames;
  }
  [[nodiscard]] bool give_to(Thread& thread, std::uint64_t task);
  GuestFunctionTimes& times(NameId function) {
    if (function >= functions_.size()) [[unlikely]]
      functions_.resize(function + 1);
    return functions_[function];
  }

  StackTree stacks_;
  std::vector<GuestFunctionTimes> functions_;
  ThreadTable<Thread> threads_;
  HeldStates<Thread> held_;                          // that something told of since the last loss
  std::unordered_map<std::uint64_t, Frames> tasks_;  // by source and task
  std::uint64_t records_ = 0, losses_ = 0;
  bool keep_calls_;
  GuestRuns runs_;
  CallCounters counters_;
  std::vector<FunctionCall> ended_;
  // begun(): a frame of that thread and task.
  struct Begun {
    const Frame* frame = nullptr;
    ThreadId thread{};
    MachineId machine = MachineId::kHost;
    std::uint64_t task = 0;
  };
  Begun begun_;
};

}  // namespace trapline
