#include "merge/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "merge/report/grouping.h"

namespace trapline {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A row with fewer exits in all runs together is not tested.
constexpr std::uint64_t kFewestExits = 50;

// A percentile is the middle of a histogram bucket, so its error is up to 1/256, uniformly
// distributed.
const double kBucketError = 1.0 / 256 / std::sqrt(3.0);

bool is_percentile(Metric metric) { return metric == Metric::kP50 || metric == Metric::kP99; }

// Returns whether the events show the part, or the duration.
bool is_known(Metric metric, const ExitModel& model) {
  if (metric < Metric::kKernel) return model.durations();
  return model
      .known_states()[static_cast<std::size_t>(metric) - static_cast<std::size_t>(Metric::kKernel)];
}

bool applies(Metric metric, const Comparison& comparison, bool halts) {
  if (halts && metric == Metric::kCost) return false;
  switch (comparison.options.rows) {
    case CompareRows::kExits:
    case CompareRows::kFaults:
      return metric == Metric::kRate || is_known(metric, comparison.model);
    case CompareRows::kFunctions:
      return true;
    case CompareRows::kWaits:
      return metric < Metric::kKernel;
    case CompareRows::kThreads:
      return metric == Metric::kShare;
    case CompareRows::kRequests:
      return metric < Metric::kShare || metric == Metric::kCost;
    case CompareRows::kInterrupts:
      break;
  }
  return metric < Metric::kShare;
}

double or_unknown(std::optional<std::uint64_t> ns) {
  return ns ? static_cast<double>(*ns) : kUnknown;
}

double ratio(double above, double below) { return below > 0 ? above / below : kUnknown; }

struct Figure {
  double value = kUnknown;
  double noise = 0;  // variance caused by the rounding of stamps
};

// Returns a row's figure in a run. A run without the row spent no time in it, and how long one of
// its exits takes is not known.
Figure figure_of(const Recorded& run, const std::string& key, Metric metric) {
  static const ExitSums kNone;
  const auto found = run.rows.find(key);
  const ExitSums& row = found == run.rows.end() ? kNone : found->second;
  const auto count = static_cast<double>(row.total.count());
  const auto total = static_cast<double>(row.total.total());
  const auto without_waits = static_cast<double>(
      row.total.total() - row.parts[static_cast<std::size_t>(Part::kPreempted)]);
  const auto wall = static_cast<double>(run.wall_ns);
  const double rate = ratio(count * 1e9, wall);
  // Variance of a difference of two stamps, each rounded to the unit.
  const double noise = run.unit * run.unit / 6;
  const auto divided = [&](double sum, double by) {
    return Figure{ratio(sum, by), noise * count / (by * by)};
  };
  // Figures per time are not known if more than a hundredth of the vCPUs' time was not seen.
  const bool of_time =
      metric == Metric::kRate || metric == Metric::kShare || metric == Metric::kCost;
  if (run.hides_time && of_time) return {};
  if (metric == Metric::kRate) return {rate, noise * rate * rate / (wall * wall)};
  if (metric == Metric::kShare)
    return divided(without_waits, wall * static_cast<double>(std::max<std::size_t>(1, run.vcpus)));
  if (metric == Metric::kCost) return divided(without_waits, or_unknown(run.guest_ns));
  if (metric == Metric::kMean) return divided(total, count);
  if (metric == Metric::kP50) return {or_unknown(row.total.percentile(500))};
  if (metric == Metric::kP99) return {or_unknown(row.total.percentile(990))};
  const auto part = static_cast<std::size_t>(metric) - static_cast<std::size_t>(Metric::kKernel);
  if (metric != Metric::kHalted && are_whole_halts(run.model.known_states(), row.halts, row.parts))
    return {};
  return divided(static_cast<double>(row.parts[part]), count);
}

// Returns one figure of all runs, with the greatest noise of any run.
RunFigures figures_of(const std::vector<Recorded>& before, const std::vector<Recorded>& after,
                      const std::string& key, Metric metric) {
  RunFigures figures{{}, {}, Resolution(is_percentile(metric) ? kBucketError : 0, 0, 0)};
  Resolution& resolution = figures.resolution;
  for (const auto* side : {&before, &after}) {
    for (const Recorded& run : *side) {
      const Figure figure = figure_of(run, key, metric);
      (side == &before ? figures.before : figures.after).push_back(figure.value);
      if (!std::isnan(figure.value)) resolution.noise = std::max(resolution.noise, figure.noise);
      if (is_percentile(metric)) resolution.unit = std::max(resolution.unit, run.unit);
    }
  }
  return figures;
}

MetricChange metric_change(const std::vector<Recorded>& before, const std::vector<Recorded>& after,
                           const std::string& key, Metric metric, bool applies) {
  MetricChange result;
  result.before = result.after = result.change = kUnknown;
  if (!applies) return result;
  result.runs = figures_of(before, after, key, metric);
  const bool logarithms = takes_logarithms(*result.runs);
  result.before = side_value(result.runs->before, logarithms);
  result.after = side_value(result.runs->after, logarithms);
  if (result.before > 0) {
    result.change = result.after / result.before - 1;
  } else if (result.before == 0 && result.after > 0) {
    result.change = std::numeric_limits<double>::infinity();
  }
  return result;
}

std::uint64_t count_of(const std::vector<Recorded>& side, const std::string& key) {
  std::uint64_t count = 0;
  for (const Recorded& run : side) {
    const auto row = run.rows.find(key);
    if (row != run.rows.end()) count += row->second.total.count();
  }
  return count;
}

// Returns the rows with the most time, or the most exits if nothing has a duration. They are never
// chosen by their change.
std::vector<std::string> rows_to_show(const std::vector<Recorded>& before,
                                      const std::vector<Recorded>& after, bool durations) {
  std::map<std::string, std::uint64_t> sizes;
  for (const auto* side : {&before, &after}) {
    for (const Recorded& run : *side) {
      for (const auto& [key, row] : run.rows)
        sizes[key] += durations ? row.total.total() : row.total.count();
    }
  }
  std::vector<std::string> keys;
  for (const auto& [key, size] : sizes) keys.push_back(key);
  std::ranges::stable_sort(keys, std::greater(), [&](const auto& key) { return sizes[key]; });
  return keys;
}

bool is_halt_row(const std::vector<Recorded>& side, const std::string& key) {
  return std::all_of(side.begin(), side.end(), [&](const Recorded& run) {
    const auto row = run.rows.find(key);
    return row == run.rows.end() || row->second.halts;
  });
}

// Returns whether the text names a VM or a vCPU by the id of a process or thread: "~90", "VM 90
// vCPU 0", "tid 91".
bool is_known_by_id(std::string_view text) {
  for (const std::string_view word : {"VM ", "tid "})
    if (text.starts_with(word)) text.remove_prefix(word.size());
  text = text.substr(0, text.find(' '));
  if (text.starts_with('~') || text.starts_with('?')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Returns part `n` of a row's key.
std::string_view part_of(std::string_view key, std::size_t n) {
  constexpr std::string_view kBetween = " / ";
  for (; n != 0; --n) {
    const std::size_t end = key.find(kBetween);
    key.remove_prefix(end == key.npos ? key.size() : end + kBetween.size());
  }
  return key.substr(0, key.find(kBetween));
}

// Returns whether the same row may have another name in other runs. Any row may if its VM or vCPU
// is named by an id, which changes from run to run. A row that only one side has may also if its
// culprit has a number in its name, if it is of a vCPU, as such a row names the VM only in a run
// with several VMs, or if only that side has its VM: a pod's VM has a new name in each run.
bool may_be_renamed(const ComparedRow& row, const std::vector<ComparedRow>& rows,
                    const CompareOptions& options) {
  const bool one_sided = row.before_count == 0 || row.after_count == 0;
  const auto may_be_other = [&](std::string_view culprit) {
    return one_sided && culprit.find_first_of("0123456789") != culprit.npos;
  };
  if (options.rows == CompareRows::kWaits) return may_be_other(row.key);
  if (options.rows != CompareRows::kExits) return false;
  for (std::size_t i = 0; i < options.dimensions.size(); ++i) {
    const std::string_view part = part_of(row.key, i);
    const auto has_vm = [&](std::uint64_t ComparedRow::*count) {
      return std::ranges::any_of(rows, [&](const ComparedRow& other) {
        return other.*count != 0 && part_of(other.key, i) == part;
      });
    };
    const Dimension dimension = options.dimensions[i];
    const bool is_vm = dimension == Dimension::kVm, is_vcpu = dimension == Dimension::kVcpu;
    if ((is_vm || is_vcpu) && is_known_by_id(part)) return true;
    if (is_vcpu && one_sided) return true;
    if (is_vm && (!has_vm(&ComparedRow::before_count) || !has_vm(&ComparedRow::after_count)))
      return true;
    if ((dimension == Dimension::kPreemptedBy || dimension == Dimension::kBlockedOn) &&
        may_be_other(part))
      return true;
  }
  return false;
}

void test(Comparison& comparison, const CompareOptions& options) {
  std::vector<MetricChange*> metrics;
  std::vector<RunFigures> figures;
  for (ComparedRow& row : comparison.rows) {
    const bool is_of_threads = options.rows == CompareRows::kThreads;
    if ((row.before_count + row.after_count < kFewestExits && !is_of_threads) ||
        may_be_renamed(row, comparison.rows, options))
      continue;
    for (MetricChange& metric : row.metrics) {
      if (!metric.runs || metric.runs->before.empty()) continue;
      metrics.push_back(&metric);
      figures.push_back(*metric.runs);
    }
  }
  const Tested tested = test_together(figures, comparison.method, comparison.options.confidence,
                                      comparison.options.seed);
  for (std::size_t i = 0; i < tested.changes.size(); ++i) metrics[i]->test = tested.changes[i];
  comparison.tests = tested.tests;
  comparison.splits = tested.splits;
  if (!tested.can_prove) {
    comparison.warnings.push_back(
        fmt::format("{} and {} runs were split in {} ways: too few for {:.4g}% confidence",
                    comparison.before.size(), comparison.after.size(), tested.splits,
                    comparison.options.confidence * 100));
  }
}

}  // namespace

bool Comparison::has(Metric metric) const { return applies(metric, *this, false); }

double ComparedRow::cost() const {
  const double cost = of(Metric::kCost).after - of(Metric::kCost).before;
  return std::isnan(cost) ? 0 : cost;
}

std::size_t Comparison::proven_changes() const {
  std::size_t count = 0;
  for (const ComparedRow& row : rows)
    for (const MetricChange& metric : row.metrics) count += metric.test.proven ? 1 : 0;
  return count;
}

Comparison compare(const std::vector<Recorded>& before, const std::vector<Recorded>& after,
                   const CompareOptions& options) {
  Comparison comparison;
  comparison.options = options;
  comparison.cycles = before.front().cycles;
  for (const auto* side : {&before, &after})
    for (const Recorded& run : *side) comparison.unit = std::max(comparison.unit, run.unit);
  comparison.model = before.front().model;
  comparison.method = method_for(before.size(), after.size());
  comparison.before = before;
  comparison.after = after;
  const bool exits = options.rows == CompareRows::kExits;
  std::vector<std::string> keys =
      rows_to_show(before, after, !exits || comparison.model.durations());
  comparison.rows_left_out = keep_first(keys, options.top);
  for (const std::string& key : keys) {
    ComparedRow row;
    row.key = key;
    row.halts = exits && is_halt_row(before, key) && is_halt_row(after, key);
    row.before_count = count_of(before, key);
    row.after_count = count_of(after, key);
    for (std::size_t i = 0; i < kMetrics; ++i) {
      const auto metric = static_cast<Metric>(i);
      row.metrics[i] =
          metric_change(before, after, key, metric, applies(metric, comparison, row.halts));
    }
    comparison.rows.push_back(std::move(row));
  }
  test(comparison, options);
  std::stable_sort(comparison.rows.begin(), comparison.rows.end(),
                   [](const ComparedRow& a, const ComparedRow& b) {
                     if (a.halts != b.halts) return b.halts;
                     return a.cost() > b.cost();
                   });
  return comparison;
}

}  // namespace trapline
