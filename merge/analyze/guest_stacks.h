// Tracks the guest's call stacks, from the records of its function entries and exits, and what each
// function's own time was spent on.
//
//   call f      push f ──┐            own time of the innermost function:
//   call g      push g   │              guest      between records, while the vCPU runs
//   kvm_exit             │ in exit      the exit's parts: kernel, user, preempted, blocked
//   kvm_entry            ┘
//   return g    pop to g's depth
//
// If a guest's tasks take turns on a vCPU (GuestCall::task), each has its own stack. The current
// stack is that of the task with the latest record; there is none while that task is off the CPU.
//
// Records that do not fit (a return without its call) resynchronise by depth.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/vcpu_time.h"
#include "merge/model/capabilities.h"
#include "merge/model/exit_span.h"
#include "merge/model/flat_index.h"
#include "merge/model/names.h"
#include "merge/model/thread_table.h"

namespace trapline {

// A stack of guest functions: the number of a node in StackTree.
using StackId = std::uint32_t;
inline constexpr StackId kNoStack = 0;

// A guest function's own time, without its callees, by what the time was spent on.
struct GuestFunctionTimes : GuestTime {
  std::uint64_t calls = 0;
  std::uint64_t exits = 0;
  // If no exits are recorded: the number of QEMU's events in the function, and how much of guest_ns
  // QEMU's devices may have used at most.
  std::uint64_t vmm_events = 0;
  std::uint64_t devices_at_most_ns = 0;
};

// A call of a guest function.
struct FunctionCall {
  ThreadId thread{};  // the thread of the vCPU
  MachineId machine = MachineId::kHost;
  std::uint64_t task = 0;  // 0: the vCPU's only stack
  StackId stack = kNoStack;
  std::uint32_t depth = 0;
  Timestamp begin, end;
  bool complete = true;  // the call's own return was recorded
  OwnTime own;           // set if the recording has no exits
};

// Counts of guest calls, and of the calls whose own return was not recorded.
struct CallCounters {
  std::uint64_t calls = 0;
  std::uint64_t without_return = 0;  // calls that count up to where they must have ended
  std::uint64_t cut_by_loss = 0;  // events were lost meanwhile: calls took longer than is counted
};

// The different stacks of guest functions, as a tree. A node is (caller's node, function), so that
// a span only holds a number. Bounded: after kMost different stacks, a new stack counts as its
// caller's.
class StackTree {
 public:
  static constexpr std::size_t kMost = 1u << 16;

  explicit StackTree(Names& names);

  struct Called {
    StackId stack;
    NameId function;  // the stack's innermost function, unless there is no room for more stacks
  };
  // Returns the stack of a call by `caller` of the function at the address. A function without a
  // name is named after its address.
  [[nodiscard]] Called call(StackId caller, std::uint64_t address, std::string_view name);
  // Returns the stack with `function` innermost: `stack` itself if it is already; the part up to
  // the frame of `function` if there is one; else `stack` with a call of it.
  [[nodiscard]] StackId with_innermost(StackId stack, NameId function);

  [[nodiscard]] NameId innermost(StackId stack) const { return nodes_[stack].function; }
  // Returns "main;f;g", the innermost last; "-" for kNoStack.
  [[nodiscard]] std::string text(StackId stack) const;

 private:
  struct Node {
    StackId caller = kNoStack;
    NameId function = kNoName;
  };
  // Caches the stack that the last call with a hash led to, so that calls in a loop need no look-up
  // of names.
  struct Recent {
    StackId caller = kNoStack, to = kNoStack;
    std::uint64_t address = 0;
    bool has_name = false;
  };
  [[nodiscard]] static std::uint32_t hash(StackId caller, std::uint64_t function) {
    const std::uint64_t both = (std::uint64_t{caller} << 32 ^ function) * 0x9e3779b97f4a7c15;
    return static_cast<std::uint32_t>(both >> 32);
  }
  [[nodiscard]] StackId child(StackId caller, NameId function);

  Names* names_;
  std::vector<Node> nodes_;  // [0] is kNoStack
  FlatIndex index_;          // finds nodes_ by caller and function
  std::array<Recent, 256> recent_;
};

[[nodiscard]] constexpr bool has_exits(const Capabilities& has) {
  return has.kvm_exit || has.kvm_userspace_exit;
}

class GuestStacks {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::uint32_t kMostDepth = 1024;

  // `keep_calls`: ended() shall return the calls that an event ended. `on_thread`: no exits are
  // recorded (TCG), so the guest runs whenever the thread is on a CPU (VcpuTime).
  explicit GuestStacks(Names& names, bool keep_calls = false, bool on_thread = false)
      : stacks_(names), keep_calls_(keep_calls), on_thread_(on_thread) {}

  // Takes GuestCall, KvmExit, KvmEntry and Lost events; ignores others.
  void on(const Event& event, ThreadChanges changes);
  // Without exits: takes the scheduler's and QEMU's events. `vmm_event` is the QEMU event of
  // a Marker, or nullptr.
  void on_host(const Event& event, ThreadChanges changes, const VmmEvent* vmm_event);
  // Returns the calls that the last event ended, the innermost first.
  [[nodiscard]] const std::vector<FunctionCall>& ended() const { return ended_; }
  // Returns the call that the last event began, without a known `end`; nullopt for other events.
  [[nodiscard]] const std::optional<FunctionCall>& begun() const { return begun_; }
  // Ends the open calls at `at`, incomplete; call it after the last event.
  void finish(Timestamp at);
  // Takes an exit that has ended. Its parts belong to the innermost function of `stack`, which the
  // exit interrupted.
  void on_span(const ExitSpan& span, StackId stack);

  // Returns the current stack of the vCPU's thread; kNoStack if no record covers it.
  [[nodiscard]] StackId stack_of(ThreadId thread) const;
  // The following call StackTree's functions of the same name.
  [[nodiscard]] StackId with_innermost(StackId stack, NameId function) {
    return stacks_.with_innermost(stack, function);
  }
  [[nodiscard]] NameId innermost(StackId stack) const { return stacks_.innermost(stack); }
  [[nodiscard]] std::string text(StackId stack) const { return stacks_.text(stack); }
  // Returns the times of functions, indexed by NameId.
  [[nodiscard]] const std::vector<GuestFunctionTimes>& functions() const { return functions_; }
  // With exits: returns the own time of each stack's innermost function, indexed by
  // StackId.
  [[nodiscard]] const std::vector<GuestTime>& by_stack() const { return by_stack_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  // Without exits: returns the threads that made the records; their `exits` are calls.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] const CallCounters& counters() const { return counters_; }

 private:
  struct Frame {
    StackId stack = kNoStack;
    std::uint32_t depth = 0;
    // True if the frame's call was recorded; otherwise the frame stands for all frames up to the
    // depth of the next one.
    bool seen = false;
    Timestamp begin;
    std::uint64_t losses = 0;  // number of losses before the call began
    OwnTime own = {};          // only without exits
  };
  using Frames = std::vector<Frame>;  // by depth
  struct Thread {
    Frames frames;                  // for calls without a task
    std::uint64_t task = 0;         // the running task; 0: none
    Frames* task_frames = nullptr;  // frames of that task, in tasks_
    bool in_guest = false;          // since `mark`, as far as the recording shows
    Timestamp mark;
    MachineId machine = MachineId::kHost;  // the machine of the records
    VcpuTime time;                         // only without exits
    VcpuTotals totals;                     // only without exits
  };
  void cut(Frames& frames, std::uint32_t depth, const Event& event, std::uint64_t task,
           bool is_return);
  void on_call(const Event& event, const GuestCall& call);
  void account(Thread& thread, Timestamp at);
  void account_thread(Thread& thread, Timestamp at);
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

  GuestTime& times_of(StackId stack) {
    if (stack >= by_stack_.size()) [[unlikely]]
      by_stack_.resize(stack + 1);
    return by_stack_[stack];
  }

  StackTree stacks_;
  std::vector<GuestFunctionTimes> functions_;
  std::vector<GuestTime> by_stack_;
  LossTable<Thread> threads_;
  std::unordered_map<std::uint64_t, Frames> tasks_;  // by source and task
  std::uint64_t records_ = 0, losses_ = 0;
  bool keep_calls_;
  bool on_thread_;
  CallCounters counters_;
  std::vector<FunctionCall> ended_;
  std::optional<FunctionCall> begun_;
};

}  // namespace trapline
