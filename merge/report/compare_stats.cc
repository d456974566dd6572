#include "merge/report/compare_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trapline {
namespace {

// The continued fraction of the incomplete beta function, by Lentz' method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-14;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return h;
}

// The regularized incomplete beta function.
double beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_cdf(double t, double degrees) {
  const double tail = 0.5 * beta(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double probability, double degrees) {
  double low = -1e6, high = 1e6;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, degrees) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::size_t block_length(std::span<const double> series, bool* enough) {
  const std::size_t n = series.size();
  const std::size_t most = std::max<std::size_t>(1, n / 16);
  if (n < 16) return 1;
  const double mean = std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(n);
  const auto covariance = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t i = lag; i < n; ++i) sum += (series[i] - mean) * (series[i - lag] - mean);
    return sum;
  };
  const double variance = covariance(0);
  if (variance <= 0) return 1;
  // The first lag after which a few are all within the noise; blocks of twice that.
  const double size = static_cast<double>(n);
  const double noise = 2 * std::sqrt(std::log10(size) / size);
  constexpr std::size_t kQuiet = 4;
  std::size_t quiet = 0, lag = 1;
  for (; lag <= most && quiet < kQuiet; ++lag) {
    quiet = std::abs(covariance(lag) / variance) < noise ? quiet + 1 : 0;
  }
  const std::size_t correlated = lag - 1 - quiet;
  if (enough != nullptr && (quiet < kQuiet || 2 * correlated + 1 > most)) *enough = false;
  return std::min(most, 2 * correlated + 1);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    corrected[order[i]] = most;
  }
  return corrected;
}

Resamples::Resamples(std::span<const std::size_t> blocks, std::size_t resamples,
                     std::uint64_t seed) {
  std::vector<std::size_t> first;
  for (const std::size_t count : blocks) {
    first.push_back(blocks_);
    blocks_ += count;
  }
  degrees_ = std::max(1.0, static_cast<double>(blocks.size() > 1 ? blocks.size() : blocks_) - 1);
  weights_.resize(blocks_ * resamples);
  Random random(seed);
  for (std::size_t i = 0; i < resamples; ++i) {
    double* weights = weights_.data() + i * blocks_;
    for (std::size_t drawn = 0; drawn < blocks.size(); ++drawn) {
      const std::size_t recording = blocks.size() == 1 ? 0 : random.below(blocks.size());
      for (std::size_t n = 0; n < blocks[recording]; ++n) {
        weights[first[recording] + random.below(blocks[recording])] += 1;
      }
    }
  }
}

Change change_between(const Estimate& before, const Estimate& after, double confidence) {
  Change change;
  const double ratio = after.value / before.value, effect = std::log(ratio);
  change.change = ratio - 1;
  const double a = before.relative_variance, b = after.relative_variance;
  if (a + b <= 0) {
    change.low = change.high = change.change;
    change.p = effect == 0 ? 1 : 0;
    return change;
  }
  const double degrees = (a + b) * (a + b) / (a * a / before.degrees + b * b / after.degrees);
  const double error = std::sqrt(a + b);
  const double reach = student_quantile((1 + confidence) / 2, degrees) * error;
  change.low = std::expm1(effect - reach);
  change.high = std::expm1(effect + reach);
  // A few long exits that one side happens to lack make the logarithm large and that side's error
  // small; the difference by its own error does not fall for it. The smaller of both is believed.
  const double difference = std::abs(after.value - before.value) /
                            std::hypot(before.value * std::sqrt(a), after.value * std::sqrt(b));
  change.p = 2 * student_cdf(-std::min(std::abs(effect) / error, difference), degrees);
  return change;
}

}  // namespace trapline
