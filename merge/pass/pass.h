// The way of every command from the recordings that the user named to its sinks.
//
//   Pass::open(): files on one clock ──> which vCPUs count, the longest exit ──> the interval's check
//                                                                                        │
//        sinks are made, of what the recording is  <─────────────────────────────────────┘
//                   │
//   Pass::run():  decoding of what they select: Timeline ──> Pipeline ──> sinks ──> check of clocks,
//                 end of the recording
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

// Refuses a relation of clocks that the recordings contradict.

// After the pass. An error names the log, how many of its events lie where they cannot, and the
// first of them with the run of the guest that it lies in.
[[nodiscard]] Result<void> check_placement(const Timeline& timeline, const Pipeline& pipeline);

// The pipeline of an opened input: the pass of a command makes one, and `trapline top`, whose
// sources may never end, one for each change of what it asks for.

// It hands out the exits of `matcher`, which it borrows, or all where there is none.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(PipelineOptions options, ExitMatcher* matcher,
                                                      std::vector<SpanSink*> sinks);

struct PassOptions {
  InputOptions input;
  Selection which;
  // What open() looks for, of `which`: LookFor.
  bool longest = false, chosen = false;
  std::vector<RequestSpec> requests;  // PipelineOptions::requests
  std::optional<GuestSpanSpec> guest_intervals;
  std::uint64_t stalls_ns = PipelineOptions().stalls_ns;
};

class Pass {
 public:
  // Errors: those of open_input(), of a filter that nothing matches, of an interval that lies
  // outside the recording.
  [[nodiscard]] static Result<Pass> open(PassOptions options, const Progress& progress);
  // open() and run() where only all of the recordings will do: one that ends early is an Error.
  [[nodiscard]] static Result<Pass> read(PassOptions options, std::vector<SpanSink*> sinks,
                                         const Progress& progress);

  // They stay where they are.
  [[nodiscard]] const Timeline& timeline() const { return *timeline_; }
  [[nodiscard]] const Input& input() const { return *input_; }  // its sources are the timeline's
  [[nodiscard]] const FirstLook& found() const { return found_; }
  // Which exits are handed out; nothing where all are. Its figures are there after run().
  [[nodiscard]] const ExitMatcher* matcher() const { return matcher_.get(); }
  // The first recording's, for messages.
  [[nodiscard]] const std::string& path() const { return timeline().source(0).info().path; }

  [[nodiscard]] const Selection& asked_for() const { return asked_.which; }
  // True if intervals of the guest are asked for.
  [[nodiscard]] bool has_guest_intervals() const { return asked_.guest_intervals.has_value(); }
  // Looks at this interval, in place of the options', which may hold no event.
  void look_at(std::optional<TimeSpec> from, std::optional<TimeSpec> to);

  // Call once. Reads until the end, or until `stop` says so. An Error where two recordings hold the
  // same run, or contradict the alignment of their clocks, or no event lies in the interval. Where
  // they end early, the sinks have what came before and status() says why.
  [[nodiscard]] Result<void> run(std::vector<SpanSink*> sinks, const Progress& progress,
                                 const std::function<bool()>& stop = {});

  // Of what run() has read.
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] Naming naming() const { return {timeline(), pipeline()}; }
  [[nodiscard]] Result<void> status() const { return timeline().status(); }
  // An Error where there are no VM exits, or none that ends: says which events there are. And where
  // none is of those that were asked for: says which names there are.
  [[nodiscard]] Result<void> check_exits() const;
  [[nodiscard]] Result<void> check_names() const;
  // Both, and an Error where the times of exits are cycles.
  [[nodiscard]] Result<void> check_times() const;

 private:
  Pass() = default;
  PassOptions asked_;
  FirstLook found_;
  bool may_be_empty_ = false;
  std::unique_ptr<Input> input_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<ExitMatcher> matcher_;
  std::unique_ptr<Pipeline> pipeline_;
};

// What a pipeline needs to know of an opened input.
[[nodiscard]] PipelineOptions pipeline_options(const Timeline& timeline, const Input& input);

}  // namespace trapline
