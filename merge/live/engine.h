// Cuts a timeline, live or recorded, into frames.
//
//   Timeline ──> Pipeline ──> FrameMaker ──> a frame for every interval ──> callback
//
// The cost of a frame depends on its number of vCPUs, even if it has no events. So that long times
// without events cost little, frames are longer than the interval if a recording has few events for
// its length.
//
// The exit model, which says how an exit's time is divided, is chosen from what the sources can
// show. A live source learns more with time (for example, that the machine's KVM has no kvm_exit):
// then the model is chosen anew at a frame's end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "merge/live/frame_maker.h"
#include "merge/pass/exit_matcher.h"
#include "merge/pass/naming.h"
#include "merge/session/input.h"

namespace trapline::live {

class Engine {
 public:
  using OnFrame = std::function<void(Frame&&)>;

  Engine(Input input, EngineOptions options, OnFrame on_frame);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  enum class State { kMore, kPending, kReached, kEnded };
  // Takes at most `most` events, none after `until` (kReached: the next event is after it). Returns
  // after each frame, and when signals and keys must be checked.
  [[nodiscard]] State advance(Timestamp until, std::uint64_t most);
  // Call it when no event before `complete` will come: closes the next frame that ends by then.
  // Returns false if there is none.
  bool pass_time(Timestamp complete);
  // Call it after kEnded: ends what waited for later events, and hands out the last frame.
  void finish();

  // Called before a frame is closed, so that the caller can add VMs that have just started to
  // known().
  std::function<void()> before_close;
  // Returns processes and names of threads that do not come from the events. The caller may add
  // some.
  [[nodiscard]] Processes& known() { return known_; }

  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] const std::vector<Dimension>& dimensions() const { return maker_->dimensions(); }
  [[nodiscard]] const Input& input() const { return input_; }
  [[nodiscard]] const ExitModel& model() const { return pipeline_->exits().model(); }
  // Returns the first event's time; nullopt if no event came yet.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  // Returns the names as of the last closed frame.
  [[nodiscard]] const Naming& naming() const { return *naming_; }
  [[nodiscard]] std::uint64_t model_changes() const { return model_changes_; }
  // Returns an Error (kUsage), which lists what there is, if nothing up to the last frame matched
  // the selection.
  [[nodiscard]] Result<void> check_names() const;

 private:
  void start_pipeline();
  void begin_at(const Event& event);
  void close(Timestamp end);
  bool close_next(Timestamp until, bool free);
  void look_at_model();

  Input input_;
  EngineOptions options_;
  OnFrame on_frame_;
  Timeline timeline_;
  std::unique_ptr<FrameMaker> maker_;
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<ExitMatcher> matcher_;  // null unless only some exits are asked for
  std::optional<TimeSpec> from_, to_;   // set when the first event came
  std::optional<Naming> naming_;
  Processes known_, processes_;  // processes_ includes those of the pipeline
  Event next_;
  bool has_next_ = false, caught_up_ = false;
  std::optional<Timestamp> first_;
  Timestamp frame_end_, last_;
  std::uint64_t taken_ = 0, rows_ = 0;  // events, and rows of vCPUs in all frames
  std::uint64_t model_changes_ = 0;
};

}  // namespace trapline::live
