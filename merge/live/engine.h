// A timeline, live or recorded, cut into frames.
//
//   Timeline ──> Pipeline ──> FrameMaker ──> frame every interval ──> whoever shows it
//
// A frame costs as much as the vCPUs it tells of, and time alone costs a recording nothing: frames
// of a recording that has few events for its length are longer than the interval.
//
// The exit model is chosen from what the sources can witness. A live source learns more with time
// (a machine whose KVM has no kvm_exit): then the model is chosen anew, at a frame's end.
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
  // Takes at most `most` events, none after `until` (kReached: the next one is); returns after each
  // frame, and after a time in which nobody looked at signals and keys.
  [[nodiscard]] State advance(Timestamp until, std::uint64_t most);
  // No event before `complete` comes any more: closes the next frame that ends by then. False: all
  // are closed.
  bool pass_time(Timestamp complete);
  // After kEnded: hands out what was complete but for a look ahead, and the last frame.
  void finish();

  // What is known beside the events: threads' processes, and their names, as they are found.
  void learn(ThreadId thread, ThreadId process) { known_.set(thread, process); }
  void learn_name(ThreadId process, const std::string& name) {
    if (!name.empty()) known_.set_name(process, name);
  }

  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] const std::vector<Dimension>& dimensions() const { return maker_->dimensions(); }
  [[nodiscard]] const Input& input() const { return input_; }
  [[nodiscard]] const ExitModel& model() const { return pipeline_->exits().model(); }
  // The first event's time, nothing before it came.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  // Of the last frame that was closed.
  [[nodiscard]] const Naming& naming() const { return *naming_; }
  [[nodiscard]] std::uint64_t model_changes() const { return model_changes_; }
  // An Error (kUsage) where nothing until the last frame was of the selection: says what there is.
  [[nodiscard]] Result<void> check_names() const;

 private:
  void start_pipeline();
  void begin_at(const Event& event);
  void close(Timestamp end);
  bool close_next(Timestamp until, bool free);
  void look_at_model();
  void name_all();

  Input input_;
  EngineOptions options_;
  OnFrame on_frame_;
  Timeline timeline_;
  std::unique_ptr<FrameMaker> maker_;
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<ExitMatcher> matcher_;  // where not all exits are asked for
  std::optional<TimeSpec> from_, to_;   // once the first event came
  std::optional<Naming> naming_;
  Processes known_, processes_;  // processes_: with those of the pipeline
  Event next_;
  bool has_next_ = false, caught_up_ = false;
  std::optional<Timestamp> first_;
  Timestamp frame_end_, last_;
  std::uint64_t taken_ = 0, rows_ = 0;  // events, and rows of vCPUs in all frames
  std::uint64_t model_changes_ = 0;
};

}  // namespace trapline::live
