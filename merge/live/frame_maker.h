// Turns the spans of a pipeline into frames, one after the other.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/live/frame.h"
#include "merge/pass/selection.h"
#include "merge/report/dimensions.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/waits.h"

namespace trapline::live {

struct EngineOptions {
  Selection which;
  std::vector<Dimension> by;  // besides kBaseDimensions
  bool waits = true;          // collect who kept the vCPUs waiting
  bool requests = true;
  std::uint64_t interval_ns = 1'000'000'000;
  bool vm_runs = false;  // the selected VM runs, although it may have no event yet
};

class FrameMaker final : public SpanSink {
 public:
  static constexpr std::size_t kMostCells = 2048, kMostSlow = 32, kMostCulprits = 32;

  explicit FrameMaker(const EngineOptions& options);
  FrameMaker(const FrameMaker&) = delete;
  FrameMaker& operator=(const FrameMaker&) = delete;

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;
  void stall(const Stall& stall, const Pipeline& pipeline) override;

  // Sets where the first frame begins.
  void start(Timestamp at) { begin_ = at; }
  // Continues the frame that `other`, of the same timeline, had begun.
  void take_over(const FrameMaker& other) {
    begin_ = other.begin_;
    counted_ = other.counted_;
  }
  // Returns the frame up to `end`; call it before an event at or after `end` is pushed. The next
  // frame begins there.
  [[nodiscard]] Frame close(Timestamp end, const Naming& names);

  // Returns the dimensions of a cell's key.
  [[nodiscard]] const std::vector<Dimension>& dimensions() const { return dimensions_; }

 private:
  void keep_slow(const SlowExit& exit);
  void close_vcpus(Frame& frame, const Pipeline& pipeline);
  void close_counts(Frame& frame, const Timeline& timeline);
  void close_stalls(Frame& frame, const Pipeline& pipeline);

  std::vector<Dimension> dimensions_;
  ExitKeys keys_;
  bool requests_wanted_, needs_waits_;
  Timestamp begin_;
  KeyedRows<Cell> cells_;
  std::uint64_t folded_ = 0;
  std::vector<SlowExit> slow_;          // once full, a heap with the fastest in front
  std::vector<Distribution> requests_;  // by spec
  WaitSums waits_;
  std::deque<SeenStall> stalls_;  // of the last minute, except those that a later one outlasts
  std::map<ThreadId, VcpuTotals> before_;  // at begin_
  Frame counted_;                          // the counters at begin_
};

}  // namespace trapline::live
