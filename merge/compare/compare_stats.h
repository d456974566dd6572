// The statistics of a comparison: pure functions of the figures of runs. docs/diff.md explains the
// choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trapline {

// splitmix64: gives the same numbers everywhere, and is simple enough to be written again in a
// test.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Returns a number below n, which must be below 2^32.
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  std::uint64_t state_;
};

// How finely a figure is known; Resolution(0, 0, 0) is that of an exact figure.
struct Resolution {
  Resolution(double bucket_error, double stamp_unit, double stamp_noise)
      : bucket(bucket_error), unit(stamp_unit), noise(stamp_noise) {}
  // Relative error of a run's figure that all runs may share: the width of a histogram's bucket.
  double bucket;
  // The unit of the stamps behind an order statistic. Figures of equal runs may differ by it, for
  // all runs in the same way, so a change up to this is never proven.
  double unit;
  // Variance that the rounding of stamps alone gives a run's mean, sum or rate. A smaller variance
  // between the runs is chance, so at least this is taken.
  double noise;
};

// One figure for each run of both sides; NaN if a run does not have it.
struct RunFigures {
  std::vector<double> before, after;
  Resolution resolution;
};

// How a comparison decides, by the number of runs of the side that has fewer.
enum class Method : std::uint8_t {
  kNone,         // fewer than three runs: nothing is claimed
  kStudent,      // three or four runs
  kPermutation,  // five or more runs: Student's t and a permutation test, which must agree
};
inline constexpr std::string_view kMethodNames[] = {"none", "student", "permutation"};
inline constexpr std::size_t kFewestRuns = 3, kFewestForPermutation = 5;
[[nodiscard]] Method method_for(std::size_t before, std::size_t after);

// The change of a figure from the side `before` to the side `after`, as a share of the figure of
// `before`. Its interval holds together with the intervals of all figures tested with it.
struct Change {
  double low = 0, high = 0;
  double p = 1;            // of this figure alone, by Student's t
  double corrected_p = 1;  // for all figures tested together
  bool tested = false;
  bool proven = false;  // the interval does not hold "no change"
  // Returns whether the interval spans more than a factor of ten, which no percentage shows well.
  [[nodiscard]] bool is_vague() const { return tested && low > -1 && 1 + high > 10 * (1 + low); }
};

// Returns the mean of a side's figures: with `logarithms` (see takes_logarithms()) the geometric
// mean, else the arithmetic mean. NaN if no run has the figure.
[[nodiscard]] double side_value(std::span<const double> side, bool logarithms);
[[nodiscard]] bool takes_logarithms(const RunFigures& figures);

// Limit of the splits (assignments of all runs to two sides) that are examined. If more are
// possible, test_together() draws so many at random, from its `seed`.
inline constexpr std::size_t kMostSplits = 10'000;
// Returns kMostSplits, or a smaller limit if so many splits would take more than six seconds for so
// many figures and runs.
[[nodiscard]] std::size_t most_splits(std::size_t figures, std::size_t runs);
struct Tested {
  std::vector<Change> changes;
  std::size_t tests = 0, splits = 0;
  // False if there are so few splits that none is rare enough to prove a change.
  bool can_prove = true;
};
[[nodiscard]] Tested test_together(std::span<const RunFigures> figures, Method method,
                                   double confidence, std::uint64_t seed);

}  // namespace trapline
