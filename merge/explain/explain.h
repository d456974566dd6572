// trapline explain: one exit, what its time was spent on, and who kept it waiting.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/kernel_tracker.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/thread_activity.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/causes.h"
#include "merge/report/slow_exits.h"
#include "merge/report/table.h"

namespace trapline {

// A time with what it consists of: the children sum to it.
struct ExplainNode {
  std::string text;
  std::uint64_t ns = 0;
  std::uint64_t count = 0;  // of a culprit: pieces; 0: no count
  std::vector<ExplainNode> children;
};

// What a vCPU waited for in a part of an exit.
struct WaitedFor {
  Part part = Part::kPreempted;
  std::string who;  // "vm 229 vcpu 0", "timer"
  std::string how;  // "vm 229 vcpu 0 ran instead", "until woken by timer"
  std::uint64_t ns = 0;
  std::uint64_t pieces = 0;  // 0: not a wait, but the rest of a halt
};

// A share of the kernel's part of an exit: KernelTracker.
struct KernelPartOf {
  std::string part;
  std::uint64_t ns = 0, pieces = 0;
};

struct ExplainStep {
  std::uint64_t after_ns = 0;  // since the exit's beginning
  std::uint64_t ns = 0;
  Part part = Part::kKernel;
  std::string who;   // empty: it waited for nobody
  std::string text;  // "preempted by X"
};

struct VmmEventText {
  std::uint64_t after_ns = 0;  // since the exit's beginning
  bool of_run = false;         // the event concerns the run itself, not who served the exit
  std::string name, text;      // `text` is as QEMU wrote it and begins with the name
};

// What the thread that woke the vCPU did while the vCPU slept; the times sum to the sleep.
struct WakerTimes {
  std::string who;
  std::uint64_t ran_ns = 0, ready_ns = 0, slept_ns = 0, unknown_ns = 0;
  std::vector<std::pair<std::string, std::uint64_t>> vmm_events;  // number of each
};

struct Explanation {
  Report begun;  // head and sources
  bool cycles = false;
  ExitRow exit;
  std::string vm;              // "?": not known
  std::string vmm = "QEMU";    // the VMM that runs it: Naming::vmm()
  bool before = false;         // the exit begins only after the requested time
  States known;                // the parts that are known for exits in this recording
  std::uint64_t guest_ns = 0;  // how long the guest ran before; 0: not known
  // Accesses to ports, or to MMIO; the exit's detail is the first; 0: none known.
  std::uint64_t accesses = 0;
  std::string fault;  // cause of its page fault; empty: it is none, or the cause is not known
  bool has_vmm_events = false;       // the recording has events of QEMU
  std::vector<WaitedFor> culprits;   // for each part, the largest first; they sum to the part
  std::vector<KernelPartOf> kernel;  // the largest first; they sum to the kernel's part
  // The same as a tree of functions with their callees, if functions were recorded.
  std::vector<ExplainNode> kernel_functions;
  std::vector<ExplainStep> steps;  // in order of time, the first kMostSteps
  std::size_t steps_left_out = 0;
  std::vector<VmmEventText> vmm_events;  // written by the vCPU's thread; the first ones
  std::size_t vmm_events_left_out = 0;
  bool device_told = false;  // one of them is an event of the device itself, not of the access
  std::optional<WakerTimes> waker;  // set if a thread woke it after most of the blocked time
  std::vector<std::string> quotas;  // sentences on limits of the vCPU's CPU time
  std::string advice, source;       // from docs/explain.md; empty: no entry there
  std::vector<std::string> open;    // OpenExits::sentences()
  std::vector<std::string> notes;

  // Returns whether events show anything about the kernel's part.
  [[nodiscard]] bool traced() const {
    return kernel.size() > 1 || (kernel.size() == 1 && kernel[0].part != "untraced");
  }
};

// Chooses and stores the exit: the longest that is not a halt, or the one at a given time.
class ExitPicker : public SpanSink {
 public:
  // `around`: takes an exit that contains this time, else the first that begins after it; nullopt:
  // the longest. `halts`: the longest may be a halt.
  explicit ExitPicker(std::optional<TimeSpec> around, bool halts = false)
      : around_(around), halts_(halts) {}

  [[nodiscard]] SpanClass selects() const override {
    // A relative time counts from the first event of all.
    return SpanClass::kEvents | SpanClass::kExits | SpanClass::kFaults | SpanClass::kKernelParts |
           (around_ ? SpanClass::kAllEvents : SpanClass::kNone);
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void unended(const UnendedExit& exit, const Pipeline&) override { open_.add(exit); }

  [[nodiscard]] const OpenExits& open() const { return open_; }
  // Returns the explanation after the pipeline has finished; nullopt if no exit was found.
  [[nodiscard]] std::optional<Explanation> explain(const Naming& names) const;

 private:
  static constexpr std::size_t kMostSteps = 1000, kMostVmmEvents = 64;
  struct VmmEvents {  // events of a vCPU's thread since its last exit ended
    struct One {
      Timestamp at;
      NameId name = kNoName;
      VmmEventKind kind = VmmEventKind::kDevice;
      std::string text;
    };
    std::vector<One> first;
    std::size_t further = 0;
  };
  [[nodiscard]] bool is_better(const ExitSpan& exit, Timestamp first) const;
  void on_vmm_event(const Event& event, const VmmEvent& told);
  void add_culprits(Explanation& explanation, const Naming& names) const;
  void add_kernel(Explanation& explanation, const Naming& names) const;
  void add_steps(Explanation& explanation, const Naming& names) const;
  void add_vmm_events(Explanation& explanation, const Naming& names) const;
  void add_advice(Explanation& explanation, const Naming& names) const;
  [[nodiscard]] std::optional<WakerTimes> waker(const Naming& names) const;

  std::optional<TimeSpec> around_;
  bool halts_;
  ThreadActivity activity_;
  std::map<ThreadId, std::uint64_t> guest_;  // the last run of each vCPU
  // By thread: answered accesses since its last exit, by DetailKind.
  using Accesses = std::array<std::uint64_t, static_cast<std::size_t>(DetailKind::kMmio) + 1>;
  std::map<ThreadId, Accesses> accessing_;
  OpenExits open_;
  bool found_ = false;
  ExitSpan exit_;  // without its views
  PageFault::Why fault_;
  NameId function_ = kNoName;
  std::uint64_t guest_ns_ = 0, accesses_ = 0;
  std::vector<PartInterval> intervals_;
  std::vector<WaitShare> waits_;
  std::vector<KernelShare> kernel_;
  std::vector<std::vector<KernelFrame>> kernel_stacks_;  // of each share, the outermost frame first
  std::map<ThreadId, VmmEvents> writing_;
  VmmEvents vmm_events_;
  Activity waker_;  // of the waker with the most blocked time, during that time
};

// Returns the part with most of the exit's time.
[[nodiscard]] Part largest_part(const ExitSpan& exit);

[[nodiscard]] Result<Explanation> run_explain(const PassOptions& what,
                                              std::optional<TimeSpec> around,
                                              const Progress& progress);

// Makes rows that text draws as a tree.
[[nodiscard]] TableOf<ExplainNode> tree_table(std::vector<ExplainNode> nodes);
// Borrows the explanation. `steps`: text also has what happened in order, and QEMU's events.
[[nodiscard]] Report make_report(const Explanation& explanation, bool steps);

}  // namespace trapline
