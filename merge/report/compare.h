// Two sides compared: each has one recording or several, read to rows by time. Plain data that
// merge/render/diff_render.h prints; docs/diff.md tells the method, docs/formats/diff.md the JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/exit_model.h"
#include "merge/report/compare_bins.h"
#include "merge/report/compare_stats.h"
#include "merge/report/folded_stacks.h"

namespace trapline {

// Of what there is a row each.
enum class CompareRows : std::uint8_t {
  kExits,       // by --by
  kRequests,    // of devices
  kFunctions,   // of the guest: calls, with their own time
  kInterrupts,  // each step of each vector's way
  kWaits,       // inside exits, by culprit
};
inline constexpr std::array<std::string_view, 5> kCompareRowsNames = {"exits", "requests", "calls",
                                                                      "interrupts", "waits"};

struct RecordedRow {
  bool halts = false;  // all of its exits are halts
  RowBins bins;
};

// One recording of a side.
struct Recorded {
  std::string path;
  std::string clock;
  bool cycles = false;
  ExitModel model;
  bool markers = false;
  std::uint64_t events = 0, lost = 0, losses_uncounted = 0, exits = 0;
  std::size_t vcpus = 1;
  std::uint64_t wall_ns = 0, bin_ns = 1;
  std::map<std::string, std::string> facts;  // what the recording says of itself
  std::vector<std::uint64_t> guest;          // guest time by bin
  std::map<std::string, RecordedRow> rows;
  FoldedTimes flame;  // where it was asked for
};

// The parts are the mean per exit.
enum class Metric : std::uint8_t {
  kRate,  // exits per second
  kMean,  // of the durations, as are the percentiles
  kP50,
  kP99,
  kShare,  // of the vCPUs' wall time
  kCost,   // time per time the guest ran
  kKernel,
  kUser,
  kPreempted,
  kBlocked,
};
inline constexpr std::size_t kMetrics = 10;
inline constexpr std::array<std::string_view, kMetrics> kMetricNames = {
    "rate", "mean", "p50", "p99", "share", "cost", "kernel", "user", "preempted", "blocked"};

struct MetricChange {
  double before = 0, after = 0;
  // Whether there is enough on both sides to test; without, the change is not known. A row that is
  // on one side only: the change is infinite, or -1.
  bool tested = false;
  Change change;
  double corrected_p = 1;  // by Holm, over all tests of the comparison
  bool real = false;
};

struct ComparedRow {
  std::string key;
  bool halts = false;
  std::uint64_t before_count = 0, after_count = 0;
  std::array<MetricChange, kMetrics> metrics;
  [[nodiscard]] const MetricChange& of(Metric metric) const {
    return metrics[static_cast<std::size_t>(metric)];
  }
  // What the change costs: time per time the guest ran.
  [[nodiscard]] double cost() const { return of(Metric::kCost).after - of(Metric::kCost).before; }
};

struct ComparedRecording {
  std::string path;
  std::uint64_t exits = 0, wall_ns = 0, guest_ns = 0;
  std::uint64_t counted = 0;  // in all rows
  std::size_t vcpus = 0, blocks = 0;
  std::uint64_t block_ns = 0;
};

struct CompareOptions {
  std::string by;  // as the user gave it; what the rows are called
  CompareRows rows = CompareRows::kExits;
  std::size_t top = 20;  // the rows with the most time on both sides together; 0: all
  double confidence = 0.95;
  std::uint64_t seed = 1;
};

struct Comparison {
  static constexpr std::size_t kResamples = 1000;
  std::string by;
  CompareRows rows_of = CompareRows::kExits;
  bool cycles = false;
  ExitModel model;
  double confidence = 0.95;
  std::uint64_t seed = 1;
  std::size_t tests = 0;  // that Holm's correction is over
  std::vector<ComparedRecording> before, after;
  std::vector<ComparedRow> rows;  // the largest cost first, halts last
  std::size_t rows_left_out = 0;
  std::vector<FoldedDifference> flame;  // where it was asked for, by stack
  std::vector<std::string> warnings;

  [[nodiscard]] std::size_t real_changes() const;
  // Exits and calls take a vCPU's time, and its parts; waits take its time.
  [[nodiscard]] bool has_parts() const {
    return rows_of == CompareRows::kFunctions ||
           (rows_of == CompareRows::kExits && model.durations());
  }
};

// An Error says why these cannot be compared, and what would make them comparable. `devices`: the
// rows are made from markers.
[[nodiscard]] Result<std::vector<std::string>> check_comparable(
    const std::vector<Recorded>& before, const std::vector<Recorded>& after, bool devices,
    CompareRows rows = CompareRows::kExits);

[[nodiscard]] Comparison compare(const std::vector<Recorded>& before,
                                 const std::vector<Recorded>& after, const CompareOptions& options);

}  // namespace trapline
