// How often `diff` proves a change where there is none: simulated runs of 40 figures, two sides of
// one mean whose spreads differ. docs/diff.md quotes it.
//
// usage: diff_errors [TRIALS]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "merge/compare/compare_stats.h"

namespace {

constexpr std::size_t kFigures = 40;
constexpr double kSpread = 0.02;      // of a run's value, before
constexpr double kCorrelation = 0.3;  // of the figures of a run

class Values {
 public:
  explicit Values(bool skewed) : skewed_(skewed) {}
  double next() { return skewed_ ? exponential_(engine_) - 1 : normal_(engine_); }

 private:
  bool skewed_;
  std::mt19937_64 engine_{7};
  std::normal_distribution<double> normal_;
  std::exponential_distribution<double> exponential_;
};

// Figures of `before` and `after` runs.
std::vector<trapline::RunFigures> simulated(Values& values, std::size_t before, std::size_t after,
                                            double ratio) {
  std::vector<double> common(before + after);
  std::generate(common.begin(), common.end(), [&values] { return values.next(); });
  std::vector<trapline::RunFigures> figures(kFigures, {{}, {}, trapline::Resolution(0, 0, 0)});
  for (trapline::RunFigures& figure : figures) {
    for (std::size_t run = 0; run < common.size(); ++run) {
      const double own = std::sqrt(1 - kCorrelation) * values.next();
      const double noise = own + std::sqrt(kCorrelation) * common[run];
      const bool is_before = run < before;
      (is_before ? figure.before : figure.after)
          .push_back(std::exp(kSpread * (is_before ? 1 : ratio) * noise));
    }
  }
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = std::max(1, argc > 1 ? std::atoi(argv[1]) : 400);
  constexpr std::array<std::array<std::size_t, 2>, 5> kSizes{
      {{3, 3}, {4, 4}, {5, 5}, {8, 5}, {10, 10}}};
  for (const bool skewed : {false, true}) {
    for (const auto& [before, after] : kSizes) {
      for (const double ratio : {1.0, 3.0, 10.0}) {
        Values values(skewed);
        int proven = 0;
        for (int trial = 1; trial <= trials; ++trial) {
          const auto figures = simulated(values, before, after, ratio);
          const auto tested = trapline::test_together(figures, trapline::method_for(before, after),
                                                      0.95, static_cast<unsigned>(trial));
          proven += std::any_of(tested.changes.begin(), tested.changes.end(),
                                [](const auto& change) { return change.proven; });
        }
        fmt::print("{} {:2} against {:2}, spread x{:<2}: {:.1f} %\n", skewed ? "skewed" : "normal",
                   before, after, ratio, 100.0 * proven / trials);
        std::fflush(stdout);
      }
    }
  }
}
