// Compares two sides, each with one or several recordings; a recording is a run. docs/diff.md
// describes the method, docs/formats/diff.md the JSON.
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
#include "merge/compare/touched_pages.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/pass/pass.h"
#include "merge/report/dimensions.h"
#include "merge/report/folded_stacks.h"
#include "merge/report/groups.h"
#include "merge/report/head.h"

namespace trapline {

// The kind of a comparison's rows.
enum class CompareRows : std::uint8_t {
  kExits,       // by --by
  kRequests,    // of devices
  kFunctions,   // calls of guest functions, with their own time
  kInterrupts,  // each step of the interrupts of each vector
  kWaits,       // inside exits, by culprit
  kThreads,     // of VMs, by role: their CPU time of the host
  kFaults,      // exits that are page faults, by cause
};
inline constexpr std::array<std::string_view, 7> kCompareRowsNames = {
    "exits", "requests", "calls", "interrupts", "waits", "threads", "faults"};

// One run of a side.
struct Recorded {
  std::string path;
  std::string clock;
  bool cycles = false;
  double unit = 1;  // unit of the stamps that the rows are made from, in ns or cycles
  ExitModel model;
  bool markers = false;
  std::uint64_t events = 0, exits = 0;
  LossCounts losses;
  std::vector<SourceRow> sources;  // the recordings that were read as this run
  std::size_t vcpus = 1;
  std::uint64_t begin_ns = 0, wall_ns = 0;
  bool hides_time = false;                // more than a hundredth of the vCPUs' time was not seen
  std::optional<std::uint64_t> guest_ns;  // nullopt: the events do not show it
  std::map<std::string, std::string> facts;  // facts about the recording
  std::vector<std::string> missing;          // Input::missing
  std::map<std::string, ExitSums> rows;
  TouchedPages pages;                            // set if the rows are page faults
  FoldedTimes flame;                             // set if requested
  [[nodiscard]] std::uint64_t counted() const {  // in all rows
    std::uint64_t count = 0;
    for (const auto& [key, row] : rows) count += row.total.count();
    return count;
  }
};

// The figures that are compared. The parts are means per exit.
enum class Metric : std::uint8_t {
  kRate,  // exits per second
  kMean,  // mean of the durations; the percentiles are also of durations
  kP50,
  kP99,
  // Both of the row's time without waits for a CPU:
  kShare,  // share of the vCPUs' wall time
  kCost,   // divided by the time that the guest ran
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

// One metric of a row on both sides, and its change. Figures are NaN if they are not known.
struct MetricChange {
  std::optional<RunFigures> runs;  // nullopt if the row does not have the metric
  double before = 0, after = 0;    // values of the sides
  double change = 0;               // as a share of `before`; infinite if that was 0
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
  // Returns the change of Metric::kCost, `after` minus `before`; 0 if not known.
  [[nodiscard]] double cost() const;
};

// The options of diff and bench.
struct CompareOptions {
  std::vector<std::string> before, after;  // recordings: each is a path, or several with commas
  InputOptions common;                     // without paths
  Selection which;                         // applied to each recording
  std::string by;                          // as the user gave it; also the title of the rows
  std::vector<Dimension> dimensions = {Dimension::kReason};
  CompareRows rows = CompareRows::kExits;
  bool flame = false;    // collect stacks too: Comparison::flame
  std::size_t top = 20;  // number of rows, those with the most time on both sides together; 0: all
  double confidence = 0.95;
  std::uint64_t seed = 1;
};

struct Comparison {
  CompareOptions options;
  bool cycles = false;
  double unit = 1;  // the coarsest unit of all runs
  ExitModel model;
  Method method = Method::kNone;
  std::size_t tests = 0, splits = 0;    // number of figures tested together; of splits of the runs
  std::vector<Recorded> before, after;  // the runs
  std::vector<ComparedRow> rows;        // the largest cost first, halts last
  std::size_t rows_left_out = 0;
  std::vector<FoldedDifference> flame;  // by stack; set if requested
  std::vector<std::string> warnings;

  [[nodiscard]] std::size_t proven_changes() const;
  // Returns whether rows that are not halts can have the metric.
  [[nodiscard]] bool has(Metric metric) const;
  // Returns whether the rows have parts, as those of calls and of exits with durations do.
  [[nodiscard]] bool has_parts() const {
    return options.rows == CompareRows::kFunctions ||
           ((options.rows == CompareRows::kExits || options.rows == CompareRows::kFaults) &&
            model.durations());
  }
};

// Checks whether the runs can be compared, and returns warnings. The Error says why they cannot,
// and what would make them comparable. `devices`: the rows are made from markers.
[[nodiscard]] Result<std::vector<std::string>> check_comparable(
    const std::vector<Recorded>& before, const std::vector<Recorded>& after, bool devices,
    CompareRows rows = CompareRows::kExits);

[[nodiscard]] Comparison compare(const std::vector<Recorded>& before,
                                 const std::vector<Recorded>& after, const CompareOptions& options);

// Splits "host.dat,uftrace.data,sync.txt": several files are one recording, unless a file has that
// name.
[[nodiscard]] std::vector<std::string> files_of(const std::string& recording);
// Makes a comparison from the user's options.
[[nodiscard]] Result<Comparison> run_compare(const CompareOptions& options,
                                             const Progress& progress);
// Makes the report of diff and bench (docs/formats/diff.md); borrows the comparison.
[[nodiscard]] Report make_report(const Comparison& comparison);

}  // namespace trapline
