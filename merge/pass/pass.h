// Connects the recordings that the user named to the sinks of a command; every command uses this.
//
//   Pass::open():  files on one clock ──> which vCPUs count, the longest exit ──> interval's check
//                                                                                      │
//        the command makes its sinks, which suit the recording  <──────────────────────┘
//                   │
//   Pass::run():   decoding of what the sinks select: Timeline ──> Pipeline ──> sinks
//                   ──> check of the clocks, end of the recording ──> PassEnd
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/pipeline.h"
#include "merge/pass/exit_matcher.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"
#include "merge/pass/selection.h"
#include "merge/session/input.h"
#include "merge/source/timeline.h"

namespace trapline {

// Refuses an alignment of clocks that the recordings contradict; call it after the pass. The Error
// names the misplaced recording, how many of its events are at impossible times, and the first of
// them with the run of the guest that contains it.
[[nodiscard]] Result<void> check_placement(const Timeline& timeline, const Pipeline& pipeline);

// Makes the pipeline of an opened input. The pass of a command makes one; `trapline top`, whose
// sources may never end, makes one for each change of its selection. The pipeline passes on the
// exits that `matcher` (borrowed) selects; null: all.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(PipelineOptions options, ExitMatcher* matcher,
                                                      std::vector<SpanSink*> sinks);

struct PassOptions {
  InputOptions input;
  Selection which;
  // Passed on to LookFor: open() looks for the longest exit, or for all exits, of `which`.
  bool longest = false, chosen = false;
  std::vector<RequestSpec> requests;  // PipelineOptions::requests
  std::optional<GuestSpanSpec> guest_intervals;
  std::uint64_t stalls_ns = PipelineOptions().stalls_ns;
};

// Opened recordings. References to the timeline and to the input stay valid when this is moved.
class OpenedPass {
 public:
  [[nodiscard]] const Timeline& timeline() const { return *timeline_; }
  [[nodiscard]] const Input& input() const { return *input_; }  // its sources moved to the timeline
  [[nodiscard]] const FirstLook& found() const { return found_; }
  // Returns the matcher that selects the exits for the sinks; null: all exits. Its counts are
  // complete only in a PassEnd.
  [[nodiscard]] const ExitMatcher* matcher() const { return matcher_.get(); }
  // Returns the first recording's path, for messages.
  [[nodiscard]] const std::string& path() const { return timeline().source(0).info().path; }

  [[nodiscard]] const Selection& selection() const { return options_.which; }
  // Returns whether intervals of the guest were requested.
  [[nodiscard]] bool has_guest_intervals() const { return options_.guest_intervals.has_value(); }

 protected:
  OpenedPass() = default;
  PassOptions options_;
  FirstLook found_;
  std::unique_ptr<Input> input_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<ExitMatcher> matcher_;
};

// The recordings after they were read. Only Pass::run() makes one, so no command can ask for
// results before they exist.
class PassEnd : public OpenedPass {
 public:
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] Naming naming() const { return {timeline(), pipeline()}; }
  [[nodiscard]] Result<void> status() const { return timeline().status(); }
  // Return an Error: check_exits() if there are no VM exits, or none that ends (says which events
  // there are); check_names() if no exit has the selected names (says which names there are).
  [[nodiscard]] Result<void> check_exits() const;
  [[nodiscard]] Result<void> check_names() const;
  // Calls check_exits() and check_names(), and returns an Error if times are in cycles.
  [[nodiscard]] Result<void> check_times() const;

 private:
  friend class Pass;
  PassEnd(OpenedPass opened, std::unique_ptr<Pipeline> pipeline)
      : OpenedPass(std::move(opened)), pipeline_(std::move(pipeline)) {}
  std::unique_ptr<Pipeline> pipeline_;
};

class Pass : public OpenedPass {
 public:
  // Opens the recordings and takes a first look at them. Errors: those of open_input(); nothing
  // matches a filter; the interval is outside the recording.
  [[nodiscard]] static Result<Pass> open(PassOptions options, const Progress& progress);
  // Calls open() and run() for a command that needs the whole recordings: a recording that ends
  // early is an Error.
  [[nodiscard]] static Result<PassEnd> read(PassOptions options, std::vector<SpanSink*> sinks,
                                            const Progress& progress);

  // Replaces the options' interval by one that need not contain an event.
  void look_at(std::optional<TimeSpec> from, std::optional<TimeSpec> to);

  // Reads until the end, or until `stop` returns true; the opened recordings then belong to the
  // PassEnd. Errors: two recordings contain the same run; the recordings contradict the alignment
  // of their clocks; no event is in the interval. If recordings end early, the sinks have what came
  // before, and PassEnd::status() says why.
  [[nodiscard]] Result<PassEnd> run(std::vector<SpanSink*> sinks, const Progress& progress,
                                    const std::function<bool()>& stop = {}) &&;

 private:
  Pass() = default;
  bool may_be_empty_ = false;
};

// Returns what a pipeline needs to know about an opened input.
[[nodiscard]] PipelineOptions pipeline_options(const Timeline& timeline, const Input& input);

}  // namespace trapline
