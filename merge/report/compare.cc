#include "merge/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "merge/report/compare_blocks.h"
#include "merge/report/top_rows.h"

namespace trapline {
namespace {

// Below these a resampled spread says little of the true one.
constexpr std::size_t kFewestBlocks = 12;
constexpr std::uint64_t kFewestExits = 50, kFewestForP99 = 1000;

// A percentile is the middle of a bucket: it is off by up to 1/256, evenly spread.
constexpr double kBucketVariance = 1.0 / 256 / 256 / 3;

struct Figure {
  Estimate estimate;
  bool enough = false;
};

Figure figure_of(const SideBlocks& side, const RowBlocks& row, Metric metric) {
  Figure figure;
  std::size_t blocks_with_it = 0;
  const bool percentile = metric == Metric::kP50 || metric == Metric::kP99;
  if (percentile) {
    const unsigned per_mille = metric == Metric::kP50 ? 500 : 990;
    figure.estimate = percentile_of(side, row, per_mille);
    if (figure.estimate.value > 0) figure.estimate.relative_variance += kBucketVariance;
    blocks_with_it = blocks_above_zero(row.count);
  } else {
    const std::vector<double>* above = &row.total;
    const std::vector<double>* below = &row.count;
    switch (metric) {
      case Metric::kRate:
        above = &row.count;
        below = &side.wall;
        break;
      case Metric::kShare:
        below = &side.vcpu_wall;
        break;
      case Metric::kCost:
        below = &side.guest;
        break;
      case Metric::kMean:
        break;
      default:
        above = &row.parts[static_cast<std::size_t>(metric) -
                           static_cast<std::size_t>(Metric::kKernel)];
        break;
    }
    figure.estimate = ratio_of(side, *above, *below);
    blocks_with_it = blocks_above_zero(*above);
  }
  const std::uint64_t fewest = metric == Metric::kP99 ? kFewestForP99 : kFewestExits;
  // Blocks without it do not tell how it spreads.
  figure.estimate.degrees =
      std::min(figure.estimate.degrees, std::max(1.0, static_cast<double>(blocks_with_it) - 1));
  figure.enough = row.exits >= fewest && blocks_with_it >= kFewestBlocks;
  return figure;
}

// A row that is on one side only: whether what there is differs from nothing.
Change appeared(const Estimate& estimate, bool after) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Change change;
  change.change = change.low = change.high = after ? kInfinite : -1;
  const double error = std::sqrt(estimate.relative_variance);
  change.p = error == 0 ? 0 : 2 * student_cdf(-1 / error, estimate.degrees);
  return change;
}

bool applies(Metric metric, const Comparison& comparison) {
  switch (comparison.rows_of) {
    case CompareRows::kExits:
      return metric == Metric::kRate || comparison.model.durations();
    case CompareRows::kFunctions:
      return true;
    case CompareRows::kWaits:
      return metric < Metric::kKernel;
    case CompareRows::kRequests:
      return metric < Metric::kShare || metric == Metric::kCost;
    case CompareRows::kInterrupts:
      break;
  }
  return metric < Metric::kShare;
}

bool is_extensive(Metric metric) {
  return metric == Metric::kRate || metric == Metric::kShare || metric == Metric::kCost;
}

MetricChange metric_change(const SideBlocks& before, const RowBlocks& row_before,
                           const SideBlocks& after, const RowBlocks& row_after, Metric metric,
                           double confidence) {
  const Figure a = figure_of(before, row_before, metric), b = figure_of(after, row_after, metric);
  MetricChange result;
  result.before = a.estimate.value;
  result.after = b.estimate.value;
  if (a.enough && b.enough) {
    result.tested = true;
    result.change = change_between(a.estimate, b.estimate, confidence);
  } else if (is_extensive(metric) && row_before.exits == 0 && b.enough) {
    result.tested = true;
    result.change = appeared(b.estimate, true);
  } else if (is_extensive(metric) && row_after.exits == 0 && a.enough) {
    result.tested = true;
    result.change = appeared(a.estimate, false);
  }
  return result;
}

// The rows with the most time, or the most exits where nothing has a duration; never chosen by
// their change.
std::vector<std::string> rows_to_show(const std::vector<Recorded>& before,
                                      const std::vector<Recorded>& after, bool durations) {
  std::map<std::string, std::uint64_t> sizes;
  for (const auto* side : {&before, &after}) {
    for (const Recorded& recorded : *side) {
      for (const auto& [key, row] : recorded.rows) {
        for (const RowBin& bin : row.bins) sizes[key] += durations ? bin.total : bin.count;
      }
    }
  }
  std::vector<std::string> keys;
  for (const auto& [key, size] : sizes) keys.push_back(key);
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const std::string& a, const std::string& b) { return sizes[a] > sizes[b]; });
  return keys;
}

bool is_halt_row(const std::vector<Recorded>& side, const std::string& key) {
  return std::all_of(side.begin(), side.end(), [&](const Recorded& recorded) {
    const auto row = recorded.rows.find(key);
    return row == recorded.rows.end() || row->second.halts;
  });
}

// What happens in so short a time is one phase of the guest's work, and another recording may hold
// another one.
constexpr std::uint64_t kShortest = 2'000'000'000;

std::optional<std::string> too_short(const Recorded& recorded, const NeededBlock& needed) {
  const double seconds = static_cast<double>(recorded.wall_ns) / 1e9;
  if (!recorded.cycles && recorded.wall_ns < kShortest) {
    return fmt::format(
        "{} is too short: {:.2g} s may be one phase of the guest's work, and then the other side "
        "has another one; record at least 10 s of the same work",
        recorded.path, seconds);
  }
  if (needed.enough) return std::nullopt;
  return fmt::format(
      "{} is too short: its exits are correlated over more than a sixteenth of its length, so a "
      "change may come from a phase of the guest's work; record longer, or several times "
      "(--before, --after)",
      recorded.path);
}

void correct(Comparison& comparison) {
  std::vector<MetricChange*> tested;
  std::vector<double> p;
  for (ComparedRow& row : comparison.rows) {
    for (MetricChange& metric : row.metrics) {
      if (!metric.tested) continue;
      tested.push_back(&metric);
      p.push_back(metric.change.p);
    }
  }
  comparison.tests = p.size();
  const std::vector<double> corrected = holm(p);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    tested[i]->corrected_p = corrected[i];
    tested[i]->real = corrected[i] < 1 - comparison.confidence;
  }
}

std::vector<ComparedRecording> described(const std::vector<Recorded>& side,
                                         const SideBlocks& blocks) {
  std::vector<ComparedRecording> all;
  for (std::size_t i = 0; i < side.size(); ++i) {
    ComparedRecording one;
    one.path = side[i].path;
    one.exits = side[i].exits;
    one.wall_ns = side[i].wall_ns;
    for (const std::uint64_t ns : side[i].guest) one.guest_ns += ns;
    for (const auto& [key, row] : side[i].rows) {
      for (const RowBin& bin : row.bins) one.counted += bin.count;
    }
    one.vcpus = side[i].vcpus;
    one.blocks = blocks.counts[i];
    one.block_ns = blocks.bins_per_block[i] * side[i].bin_ns;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::size_t Comparison::real_changes() const {
  std::size_t count = 0;
  for (const ComparedRow& row : rows) {
    for (const MetricChange& metric : row.metrics) count += metric.real ? 1 : 0;
  }
  return count;
}

Comparison compare(const std::vector<Recorded>& before, const std::vector<Recorded>& after,
                   const CompareOptions& options) {
  Comparison comparison;
  comparison.by = options.by;
  comparison.rows_of = options.rows;
  comparison.cycles = before.front().cycles;
  comparison.model = before.front().model;
  comparison.confidence = options.confidence;
  comparison.seed = options.seed;

  std::uint64_t block_ns = 0;
  for (const auto* side : {&before, &after}) {
    for (const Recorded& recorded : *side) {
      const NeededBlock needed = needed_block(recorded);
      block_ns = std::max(block_ns, needed.ns);
      if (auto warning = too_short(recorded, needed)) {
        comparison.warnings.push_back(std::move(*warning));
      }
    }
  }
  // Two seeds: the sides are independent.
  const SideBlocks left(before, block_ns, Comparison::kResamples, 2 * options.seed);
  const SideBlocks right(after, block_ns, Comparison::kResamples, 2 * options.seed + 1);
  comparison.before = described(before, left);
  comparison.after = described(after, right);

  const bool exits = options.rows == CompareRows::kExits;
  std::vector<std::string> keys =
      rows_to_show(before, after, !exits || comparison.model.durations());
  comparison.rows_left_out = keep_first(keys, options.top);
  for (const std::string& key : keys) {
    const RowBlocks a(before, left, key), b(after, right, key);
    ComparedRow row;
    row.key = key;
    row.halts = exits && is_halt_row(before, key) && is_halt_row(after, key);
    row.before_count = a.exits;
    row.after_count = b.exits;
    for (std::size_t i = 0; i < kMetrics; ++i) {
      const auto metric = static_cast<Metric>(i);
      if (!applies(metric, comparison) || (row.halts && metric == Metric::kCost)) continue;
      row.metrics[i] = metric_change(left, a, right, b, metric, options.confidence);
    }
    comparison.rows.push_back(std::move(row));
  }
  correct(comparison);
  std::stable_sort(comparison.rows.begin(), comparison.rows.end(),
                   [](const ComparedRow& a, const ComparedRow& b) {
                     if (a.halts != b.halts) return b.halts;
                     return a.cost() > b.cost();
                   });
  return comparison;
}

}  // namespace trapline
