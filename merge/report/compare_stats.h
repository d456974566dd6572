// The statistics of a comparison: pure functions. docs/diff.md says why these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trapline {

// Student's t: the probability of a value below t, and the value with this probability below it.
[[nodiscard]] double student_cdf(double t, double degrees);
[[nodiscard]] double student_quantile(double probability, double degrees);

// How many values in a row make a block that hardly depends on the next one: 1 where neighbours are
// not correlated, at most a sixteenth of the values. `enough`: becomes false where that is
// too little.
[[nodiscard]] std::size_t block_length(std::span<const double> series, bool* enough = nullptr);

// p-values corrected by Holm's method, in the order given; at most 1.
[[nodiscard]] std::vector<double> holm(std::span<const double> p);

// splitmix64: the same numbers everywhere, simple enough to be written again in a test.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Below n, which is below 2^32.
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  std::uint64_t state_;
};

// How often each block of a side is taken in each resample: recordings are drawn first, then as
// many blocks of each as it has.
class Resamples {
 public:
  // blocks: of each recording.
  Resamples(std::span<const std::size_t> blocks, std::size_t resamples, std::uint64_t seed);

  [[nodiscard]] std::size_t size() const { return blocks_ == 0 ? 0 : weights_.size() / blocks_; }
  // Of all blocks, recording after recording.
  [[nodiscard]] std::span<const double> weights(std::size_t resample) const {
    return std::span(weights_).subspan(resample * blocks_, blocks_);
  }
  // What a variance over the resamples is multiplied with, and its degrees of freedom.
  [[nodiscard]] double inflation() const { return (degrees_ + 1) / degrees_; }
  [[nodiscard]] double degrees() const { return degrees_; }

 private:
  std::size_t blocks_ = 0;
  double degrees_ = 1;
  std::vector<double> weights_;
};

// A figure of one side, with its spread over the resamples.
struct Estimate {
  double value = 0;
  double relative_variance = 0;  // of the value; 0 where the value is 0
  double degrees = 1;
};

// After against before: the change as a share of before.
struct Change {
  double change = 0, low = 0, high = 0;
  double p = 1;
};
// Both values above 0. The logarithm of the ratio has Student's distribution with Welch's degrees.
[[nodiscard]] Change change_between(const Estimate& before, const Estimate& after,
                                    double confidence);

}  // namespace trapline
