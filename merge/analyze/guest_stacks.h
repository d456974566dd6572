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
// A stack is a node of a tree of (caller's node, function): a span holds a number. Records that do
// not fit (a return without its call) resynchronise by depth. Bounded: after kMostNodes different
// stacks new ones are their caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/function_call.h"
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
  static constexpr std::size_t kMostNodes = 1u << 16, kMostThreads = 1u << 16;
  static constexpr std::uint32_t kMostDepth = 1024;

  // `keep_calls`: ended() tells the calls that an event ended.
  explicit GuestStacks(Names& names, bool keep_calls = false,
                       GuestRuns runs = GuestRuns::kBetweenExits)
      : names_(&names),
        nodes_{{}},
        children_(256, kNoStack),
        keep_calls_(keep_calls),
        runs_(runs) {}

  // GuestCall, KvmExit, KvmEntry and Lost events; others do nothing.
  void on(const Event& event);
  // GuestRuns::kOnThread: the scheduler's and QEMU's events; `vmm_event` is what a Marker is, or
  // nullptr.
  void on_host(const Event& event, const VmmEvent* vmm_event);
  // The calls that the last event ended, the innermost first.
  [[nodiscard]] const std::vector<FunctionCall>& ended() const { return ended_; }
  // The call that the last event began; its `end` is not known yet. Nothing for other events.
  [[nodiscard]] const std::optional<FunctionCall>& begun() const { return begun_; }
  // After the last event: what is open ends there, not complete.
  void finish(Timestamp at);
  // The exit that a KvmEntry ended: its parts belong to the function it interrupted.
  void on_span(const ExitSpan& span, StackId stack);

  // The stack of the vCPU's thread now, kNoStack where no record covers it.
  [[nodiscard]] StackId stack_of(ThreadId thread) const;
  // The stack with `function` innermost: the same where it is that already, its caller's part where
  // it is one of the frames, else with the function added as called by it.
  [[nodiscard]] StackId with_innermost(StackId stack, NameId function);

  [[nodiscard]] NameId innermost(StackId stack) const { return nodes_[stack].function; }
  // "main;f;g", the innermost last; "-" of kNoStack.
  [[nodiscard]] std::string text(StackId stack) const;
  // Indexed by NameId.
  [[nodiscard]] const std::vector<GuestFunctionTimes>& functions() const { return functions_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  // GuestRuns::kOnThread: the threads that made the records, their `exits` are calls.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] const CallCounters& counters() const { return counters_; }

 private:
  struct Node {
    StackId caller = kNoStack;
    NameId function = kNoName;
  };
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
    Frames frames;           // of the thread itself
    std::uint64_t task = 0;  // of the task that runs, in tasks_; 0: none
    bool in_guest = false;   // since `mark`, as far as the recording shows
    bool held = false;       // among held_
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
  [[nodiscard]] const Frames& frames_of(const Thread& thread) const;
  [[nodiscard]] StackId child(StackId caller, NameId function);
  [[nodiscard]] std::size_t slot_of(StackId caller, NameId function) const;
  GuestFunctionTimes& times(NameId function);

  Names* names_;
  std::vector<Node> nodes_;        // [0] is kNoStack
  std::vector<StackId> children_;  // open addressing by (caller, function), at most half full
  std::vector<GuestFunctionTimes> functions_;
  ThreadTable<Thread> threads_;
  HeldStates<Thread> held_;                          // that something told of since the last loss
  std::unordered_map<std::uint64_t, Frames> tasks_;  // by source and task
  std::uint64_t records_ = 0, losses_ = 0;
  bool keep_calls_;
  GuestRuns runs_;
  CallCounters counters_;
  std::vector<FunctionCall> ended_;
  std::optional<FunctionCall> begun_;
};

}  // namespace trapline
