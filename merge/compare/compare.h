// Two sides compared: each has one recording, which is a run, or several. docs/diff.md tells the
// method, docs/formats/diff.md the JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/exit_model.h"
#include "merge/compare/compare_stats.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/pass/pass.h"
#include "merge/report/dimensions.h"
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
  Histogram durations;
  Parts parts{};  // their sums
};

// One run of a side.
struct Recorded {
  std::string path;
  std::string clock;
  bool cycles = false;
  double unit = 1;  // of the stamps that the rows are made from, in ns or cycles
  ExitModel model;
  bool markers = false;
  std::uint64_t events = 0, lost = 0, losses_uncounted = 0, exits = 0;
  std::size_t vcpus = 1;
  std::uint64_t begin_ns = 0, wall_ns = 0;
  std::optional<std::uint64_t> guest_ns;     // nothing: the events do not tell
  std::map<std::string, std::string> facts;  // what the recording says of itself
  std::vector<std::string> missing;          // Input::missing
  std::map<std::string, RecordedRow> rows;
  FoldedTimes flame;                             // where it was asked for
  [[nodiscard]] std::uint64_t counted() const {  // in all rows
    std::uint64_t count = 0;
    for (const auto& [key, row] : rows) count += row.durations.count();
    return count;
  }
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
  kHalted,
};
inline constexpr std::size_t kMetrics = 11;
inline constexpr std::array<std::string_view, kMetrics> kMetricNames = {
    "rate",   "mean", "p50",       "p99",     "share", "cost",
    "kernel", "user", "preempted", "blocked", "halted"};

// Every figure is NaN where it is not known.
struct MetricChange {
  RunFigures runs;
  double before = 0, after = 0;  // of the sides
  double change = 0;             // as a share of before; infinite: there was nothing before
  Change test;
};

struct ComparedRow {
  std::string key;
  bool halts = false;
  std::uint64_t before_count = 0, after_count = 0;
  std::array<MetricChange, kMetrics> metrics;
  [[nodiscard]] const MetricChange& of(Metric metric) const {
    return metrics[static_cast<std::size_t>(metric)];
  }
  // What the change costs: time per time the guest ran; 0 where that is not known.
  [[nodiscard]] double cost() const;
};

// What diff and bench are asked for.
struct CompareOptions {
  std::vector<std::string> before, after;  // a recording each: a path, or several with commas
  InputOptions common;                     // without paths
  Selection which;                         // of each recording
  std::string by;                          // as the user gave it; what the rows are called
  std::vector<Dimension> dimensions = {Dimension::kReason};
  CompareRows rows = CompareRows::kExits;
  bool flame = false;    // stacks as well: Comparison::flame
  std::size_t top = 20;  // the rows with the most time on both sides together; 0: all
  double confidence = 0.95;
  std::uint64_t seed = 1;
};

struct Comparison {
  std::string by;
  CompareRows rows_of = CompareRows::kExits;
  bool cycles = false;
  double unit = 1;  // the coarsest one of all runs
  ExitModel model;
  double confidence = 0.95;
  std::uint64_t seed = 1;
  Method method = Method::kNone;
  std::size_t tests = 0, splits = 0;    // figures tested together; splits of the runs
  std::vector<Recorded> before, after;  // the runs
  std::vector<ComparedRow> rows;        // the largest cost first, halts last
  std::size_t rows_left_out = 0;
  std::vector<FoldedDifference> flame;  // where it was asked for, by stack
  std::vector<std::string> warnings;

  [[nodiscard]] std::size_t proven_changes() const;
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

// "host.dat,uftrace.data,sync.txt": several files are one recording, unless a file has that name.
[[nodiscard]] std::vector<std::string> files_of(const std::string& recording);
// From what the user named to plain data.
[[nodiscard]] Result<Comparison> run_compare(const CompareOptions& options,
                                             const Progress& progress);

}  // namespace trapline
