// trapline explain: one exit, what its time went to and who kept it waiting.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/analyze/thread_activity.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/causes.h"

namespace trapline {

// The children of a node sum to it.
struct ExplainNode {
  std::string text;
  std::uint64_t ns = 0;
  std::uint64_t count = 0;  // of a culprit: pieces; 0: not a count
  std::vector<ExplainNode> children;
};

struct ExplainStep {
  std::uint64_t after_ns = 0;  // since the exit's begin
  std::uint64_t ns = 0;
  std::string text;
};

// What the thread that woke the vCPU did while it slept; the times sum to the sleep.
struct WakerTimes {
  std::string who;
  std::uint64_t ran_ns = 0, ready_ns = 0, slept_ns = 0, unknown_ns = 0;
  std::vector<std::pair<std::string, std::uint64_t>> vmm_events;  // how many of each
};

struct Explanation {
  bool cycles = false;
  std::uint64_t start_ns = 0;
  std::uint64_t guest_ns = 0;  // how long the guest ran before; 0: not known
  ExplainNode tree;
  std::vector<ExplainStep> steps;  // in order of time, the first kMostSteps
  std::size_t steps_left_out = 0;
  std::vector<std::string> sentences;
  std::optional<WakerTimes> waker;  // where a thread woke it after most of the blocked time
  std::string advice, source;       // of docs/explain.md; empty: no entry there
  std::vector<std::string> notes;
};

// Chooses the exit and keeps it: the longest that is no halt, or the one at a time.
class ExitPicker : public SpanSink {
 public:
  // No time: the longest. An exit that holds it is taken, else the first that begins after it.
  explicit ExitPicker(std::optional<TimeSpec> around) : around_(around) {}

  [[nodiscard]] SpanClass selects() const override {
    // A time may count from the first event of all.
    return SpanClass::kEvents | SpanClass::kExits | SpanClass::kWaits |
           (around_ ? SpanClass::kAllEvents : SpanClass::kNone);
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;

  // Once the pipeline has finished; nothing where no exit was found.
  [[nodiscard]] std::optional<Explanation> explain(const Naming& names) const;

 private:
  static constexpr std::size_t kMostSteps = 20;
  [[nodiscard]] bool is_better(const ExitSpan& exit, Timestamp first) const;
  [[nodiscard]] ExplainNode tree(const Naming& names) const;
  void add_steps(Explanation& explanation, const Naming& names) const;
  [[nodiscard]] std::optional<WakerTimes> waker(const Naming& names) const;
  void add_sentences(Explanation& explanation, const Naming& names) const;
  [[nodiscard]] std::string what(const Naming& names) const;
  [[nodiscard]] Part largest_part() const;
  static void add_awake(ExplainNode& halted);

  std::optional<TimeSpec> around_;
  ThreadActivity activity_;
  std::map<ThreadId, std::uint64_t> guest_;  // the last run of each vCPU
  bool found_ = false;
  ExitSpan exit_;  // without its views
  std::uint64_t guest_ns_ = 0;
  std::vector<PartInterval> intervals_;
  std::vector<WaitShare> waits_;
  Activity waker_;  // of the one of most blocked time, in that time
};

[[nodiscard]] Result<Explanation> run_explain(const PassOptions& what,
                                              std::optional<TimeSpec> around,
                                              const Progress& progress);

}  // namespace trapline
