// Turns the spans of a pipeline into frames, one after the other. A frame is one interval of a live
// view, as plain data that is small enough to keep the last minutes.
//
//   exits ──> cells (vCPU x reason x device x the dimensions of --by) ──> rows by any of these
//
// A cell counts the exits that ended in the interval. Exits that began before the interval are
// included and also counted separately (carried); without them, a cell has the figures of `trapline
// report` for the interval.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/page_faults.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/stall_tracker.h"
#include "merge/model/exit_span.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/selection.h"
#include "merge/report/dimensions.h"
#include "merge/report/grouping.h"
#include "merge/report/groups.h"
#include "merge/report/host_roles.h"
#include "merge/report/options.h"
#include "merge/report/requests.h"
#include "merge/report/slow_exits.h"
#include "merge/report/waits.h"

namespace trapline::live {

// The dimensions that cells always have; those of --by follow.
inline constexpr std::array kBaseDimensions{Dimension::kVcpu, Dimension::kReason,
                                            Dimension::kDevice};
enum BaseWord : std::size_t { kVcpuWord, kReasonWord, kDeviceWord };

struct Cell {
  GroupKey key;
  GroupRow row;                               // without its text
  std::uint64_t carried = 0, carried_ns = 0;  // of the exits that began before the interval
  KeptExit slowest;
};

// The host's CPU time of a VM's threads with one role.
struct HostRoleTime {
  Vm vm;
  HostRole role = HostRole::kNotKnown;
  std::uint64_t ns = 0;       // in the interval
  std::uint64_t more_ns = 0;  // no frame had it before; also from before the VM was known
};

// The page faults of vCPUs by cause.
using FaultTotals = std::map<std::pair<ThreadId, FaultCause>, FaultTotal>;

struct Frame : LossCounts {
  Timestamp begin, end;
  std::vector<Cell> cells;
  std::uint64_t folded = 0;  // exits beyond the greatest number of cells
  // Each vCPU's times between begin and end, at most the interval. An exit that is open at begin or
  // end counts with its time inside the interval.
  std::vector<VcpuTotalsOf> vcpus;
  std::vector<KeptExit> slow;  // the slowest exits that are not halts, the slowest first
  WaitReport waits;
  std::vector<GroupRow> requests;
  std::vector<HostRoleTime> host_cpu;  // empty if sched_switch is not recorded
  FaultTotals faults;
  std::optional<StallTime> longest_stall;  // of those that ended in the last minute, or still last
  std::uint64_t events = 0;

  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
  // Returns approximately how many bytes of memory the frame takes.
  [[nodiscard]] std::size_t size() const;
};

// The command line's choice of figures.
struct EngineOptions {
  Selection which;
  std::string chosen;  // `which` as words: "--vm web01 --reason io"; empty: all
  std::vector<Dimension> by;
  SortBy sort = SortBy::kTotal;
  std::size_t top = 0;  // rows of a line of JSON; 0: all
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
    events_ = other.events_;
  }
  // Returns the frame up to `end`; call it before an event at or after `end` is pushed. The next
  // frame begins there.
  [[nodiscard]] Frame close(Timestamp end, const Naming& names);

  // Returns the dimensions of a cell's key.
  [[nodiscard]] const std::vector<Dimension>& dimensions() const { return dimensions_; }

 private:
  void close_vcpus(Frame& frame, const Pipeline& pipeline);
  void close_counts(Frame& frame, const Timeline& timeline);
  void close_host_cpu(Frame& frame, const Naming& names);
  void close_stalls(Frame& frame, const Pipeline& pipeline);

  std::vector<Dimension> dimensions_;
  ExitKeys keys_;
  bool requests_wanted_;
  Timestamp begin_;
  Grouping<Cell> cells_;
  std::uint64_t folded_ = 0;
  std::vector<KeptExit> slow_;  // once full, a heap with the fastest in front
  RequestTable requests_;
  WaitSums waits_;
  FaultTotals faults_;
  std::deque<StallTime> stalls_;  // of the last minute, except those that a later one outlasts
  std::map<ThreadId, VcpuTotals> before_;   // at begin_
  std::map<ThreadId, std::uint64_t> ran_;   // ns that threads ran, at begin_
  std::map<ThreadId, std::uint64_t> told_;  // ns of ran_ that frames have
  LossCounts counted_;                      // at begin_; so is events_
  std::uint64_t events_ = 0;
};

}  // namespace trapline::live
