#include "merge/report/compare_blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trapline {
namespace {

constexpr std::size_t kRowsLookedAt = 5;

std::size_t bins_of(const Recorded& recorded) {
  return static_cast<std::size_t>((recorded.wall_ns + recorded.bin_ns - 1) / recorded.bin_ns);
}

double weighted(const double* values, std::span<const double> weights) {
  // Sums of whole numbers: the order does not matter, four at a time is faster.
  std::array<double, 4> sums{};
  std::size_t i = 0;
  for (; i + 4 <= weights.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += values[i + k] * weights[i + k];
  }
  for (; i < weights.size(); ++i) sums[0] += values[i] * weights[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

Estimate spread(double value, const std::vector<double>& resampled, const Resamples& resamples) {
  Estimate estimate;
  estimate.value = value;
  estimate.degrees = resamples.degrees();
  if (value == 0 || resampled.size() < 2) return estimate;
  const double size = static_cast<double>(resampled.size());
  const double mean = std::accumulate(resampled.begin(), resampled.end(), 0.0) / size;
  double squares = 0;
  for (const double one : resampled) squares += (one - mean) * (one - mean);
  estimate.relative_variance = squares / (size - 1) / (value * value) * resamples.inflation();
  return estimate;
}

// Blocks that follow each other are a little correlated, since what is correlated is cut by their
// edges. The resamples do not see that: the variance of a sum is larger by twice the correlation of
// neighbours. `residuals`: what each block adds to the figure, beside its mean.
double neighbour_inflation(const SideBlocks& side, const std::vector<double>& residuals) {
  if (side.counts.size() != 1) return 1;  // drawing recordings has it
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    squares += residuals[i] * residuals[i];
    if (i > 0) products += residuals[i - 1] * residuals[i];
  }
  return squares > 0 ? 1 + 2 * std::max(0.0, products / squares) : 1;
}

double percentile(const RowBlocks& row, std::span<const double> weights, unsigned per_mille) {
  const std::size_t blocks = weights.size();
  const double rank =
      std::max(1.0, std::ceil(weighted(row.count.data(), weights) * per_mille / 1000));
  std::size_t low = 0, high = row.buckets.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (weighted(row.up_to.data() + middle * blocks, weights) < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<double>(Histogram::middle_of(row.buckets[low]));
}

}  // namespace

NeededBlock needed_block(const Recorded& recorded) {
  const std::size_t bins = bins_of(recorded);
  std::vector<std::pair<std::uint64_t, const RecordedRow*>> rows;
  std::vector<double> all(bins);
  for (const auto& [key, row] : recorded.rows) {
    std::uint64_t count = 0;
    for (const RowBin& bin : row.bins) {
      count += bin.count;
      if (!row.halts && bin.bin < bins) all[bin.bin] += static_cast<double>(bin.total);
    }
    rows.emplace_back(count, &row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  rows.resize(std::min(rows.size(), kRowsLookedAt));
  NeededBlock needed;
  std::size_t length = block_length(all, &needed.enough);
  for (const auto& [count, row] : rows) {
    std::vector<double> rate(bins);
    for (const RowBin& bin : row->bins) {
      if (bin.bin < bins) rate[bin.bin] = static_cast<double>(bin.count);
    }
    length = std::max(length, block_length(rate, &needed.enough));
  }
  needed.ns = length * recorded.bin_ns;
  return needed;
}

SideBlocks::SideBlocks(const std::vector<Recorded>& side, std::uint64_t block_ns,
                       std::size_t resample_count, std::uint64_t seed)
    : resamples({}, 0, 0) {
  for (const Recorded& recorded : side) {
    const std::size_t bins = std::max<std::size_t>(1, bins_of(recorded));
    std::size_t length =
        static_cast<std::size_t>((block_ns + recorded.bin_ns - 1) / recorded.bin_ns);
    length = std::min(length, bins / 16);  // a short recording keeps 16 blocks
    length = std::max({length, std::size_t{1}, (bins + kMostBlocks - 1) / kMostBlocks});
    // What remains at the end belongs to the last block.
    const std::size_t blocks = std::max<std::size_t>(1, bins / length);
    first.push_back(wall.size());
    counts.push_back(blocks);
    bins_per_block.push_back(length);
    const std::uint64_t width = length * recorded.bin_ns;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::uint64_t ns = i + 1 < blocks ? width : recorded.wall_ns - width * i;
      wall.push_back(static_cast<double>(ns) / 1e9);
      vcpu_wall.push_back(static_cast<double>(ns * std::max<std::size_t>(1, recorded.vcpus)));
    }
    guest.resize(wall.size());
    for (std::size_t bin = 0; bin < recorded.guest.size(); ++bin) {
      guest[block_of(counts.size() - 1, static_cast<std::uint32_t>(bin))] +=
          static_cast<double>(recorded.guest[bin]);
    }
  }
  resamples = Resamples(counts, resample_count, seed);
}

std::size_t SideBlocks::block_of(std::size_t recording, std::uint32_t bin) const {
  return first[recording] + std::min(counts[recording] - 1, bin / bins_per_block[recording]);
}

RowBlocks::RowBlocks(const std::vector<Recorded>& side, const SideBlocks& blocks,
                     const std::string& key)
    : count(blocks.wall.size()), total(count.size()) {
  for (auto& part : parts) part.resize(count.size());
  std::vector<std::uint8_t> occurs(Histogram::kBuckets);
  const auto for_each_bin = [&](auto&& visit) {
    for (std::size_t i = 0; i < side.size(); ++i) {
      const auto row = side[i].rows.find(key);
      if (row == side[i].rows.end()) continue;
      for (const RowBin& bin : row->second.bins) visit(bin, blocks.block_of(i, bin.bin));
    }
  };
  for_each_bin([&](const RowBin& bin, std::size_t block) {
    exits += bin.count;
    count[block] += static_cast<double>(bin.count);
    total[block] += static_cast<double>(bin.total);
    for (std::size_t part = 0; part < kParts; ++part) {
      parts[part][block] += static_cast<double>(bin.parts[part]);
    }
    for (const BucketCount& one : bin.buckets) occurs[one.bucket] = 1;
  });
  std::vector<std::size_t> place(Histogram::kBuckets);
  for (std::size_t bucket = 0; bucket < occurs.size(); ++bucket) {
    if (occurs[bucket] == 0) continue;
    place[bucket] = buckets.size();
    buckets.push_back(static_cast<std::uint16_t>(bucket));
  }
  const std::size_t width = count.size();
  up_to.resize(buckets.size() * width);
  for_each_bin([&](const RowBin& bin, std::size_t block) {
    for (const BucketCount& one : bin.buckets) {
      up_to[place[one.bucket] * width + block] += one.count;
    }
  });
  for (std::size_t i = width; i < up_to.size(); ++i) up_to[i] += up_to[i - width];
}

Estimate ratio_of(const SideBlocks& side, const std::vector<double>& above,
                  const std::vector<double>& below) {
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  const double whole = sum(below);
  if (whole == 0) return spread(0, {}, side.resamples);
  std::vector<double> resampled;
  for (std::size_t i = 0; i < side.resamples.size(); ++i) {
    const auto weights = side.resamples.weights(i);
    const double base = weighted(below.data(), weights);
    if (base > 0) resampled.push_back(weighted(above.data(), weights) / base);
  }
  Estimate estimate = spread(sum(above) / whole, resampled, side.resamples);
  std::vector<double> residuals(above);
  for (std::size_t i = 0; i < above.size(); ++i) residuals[i] -= estimate.value * below[i];
  estimate.relative_variance *= neighbour_inflation(side, residuals);
  return estimate;
}

Estimate percentile_of(const SideBlocks& side, const RowBlocks& row, unsigned per_mille) {
  if (row.buckets.empty()) return spread(0, {}, side.resamples);
  const std::vector<double> ones(row.count.size(), 1.0);
  std::vector<double> resampled;
  for (std::size_t i = 0; i < side.resamples.size(); ++i) {
    const auto weights = side.resamples.weights(i);
    if (weighted(row.count.data(), weights) > 0) {
      resampled.push_back(percentile(row, weights, per_mille));
    }
  }
  Estimate estimate = spread(percentile(row, ones, per_mille), resampled, side.resamples);
  // Of a percentile: the exits up to it, beside those that would be expected.
  const std::size_t blocks = row.count.size();
  std::size_t bucket = 0;
  while (static_cast<double>(Histogram::middle_of(row.buckets[bucket])) < estimate.value) ++bucket;
  std::vector<double> residuals(
      row.up_to.begin() + static_cast<std::ptrdiff_t>(bucket * blocks),
      row.up_to.begin() + static_cast<std::ptrdiff_t>((bucket + 1) * blocks));
  const double share = std::accumulate(residuals.begin(), residuals.end(), 0.0) /
                       std::accumulate(row.count.begin(), row.count.end(), 0.0);
  for (std::size_t i = 0; i < blocks; ++i) residuals[i] -= share * row.count[i];
  estimate.relative_variance *= neighbour_inflation(side, residuals);
  return estimate;
}

std::size_t blocks_above_zero(const std::vector<double>& values) {
  return static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](double value) { return value > 0; }));
}

}  // namespace trapline
