#include "merge/compare/compare_stats.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace trapline {
namespace {

// Does not throw: figures that give no t give NaN, which proves nothing.
using StudentsT = boost::math::students_t_distribution<
    double, boost::math::policies::policy<
                boost::math::policies::domain_error<boost::math::policies::ignore_error>,
                boost::math::policies::overflow_error<boost::math::policies::ignore_error>>>;

}  // namespace

Method method_for(std::size_t before, std::size_t after) {
  const std::size_t fewer = std::min(before, after);
  if (fewer < kFewestRuns) return Method::kNone;
  return fewer < kFewestForPermutation ? Method::kStudent : Method::kPermutation;
}

bool takes_logarithms(const RunFigures& figures) {
  const auto above_zero = [](double value) { return std::isnan(value) || value > 0; };
  return std::all_of(figures.before.begin(), figures.before.end(), above_zero) &&
         std::all_of(figures.after.begin(), figures.after.end(), above_zero);
}

double side_value(std::span<const double> side, bool logarithms) {
  double sum = 0, count = 0, last = 0;
  for (const double value : side) {
    if (std::isnan(value)) continue;
    last = value;
    sum += logarithms ? std::log(value) : value;
    ++count;
  }
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  if (count == 1) return last;
  return logarithms ? std::exp(sum / count) : sum / count;
}

namespace {

// Limits to the precision of a difference, on the scale on which figures are compared.
struct Exactness {
  double floor = 0;  // least squared error of the difference
  double noise = 0;  // least variance of each run
  double unit = 0;   // a difference up to this counts as none
};

// The figures of all runs on the scale on which they are compared; the runs of `before` come first.
struct Scaled {
  std::vector<double> values;  // NaN: none
  double unit = 1;             // a figure is its value here times this; unused for logarithms
  Exactness exact;
  bool logarithms = true;
  double before = 0;  // side_value() of the side `before`
};

// Relative differences that are smaller are rounding errors.
constexpr double kRounding = 1e-9;

std::optional<Scaled> scaled(const RunFigures& figures) {
  const auto with_it = [](const std::vector<double>& side) {
    return static_cast<std::size_t>(
        std::count_if(side.begin(), side.end(), [](double value) { return !std::isnan(value); }));
  };
  if (std::min(with_it(figures.before), with_it(figures.after)) < kFewestRuns) return std::nullopt;
  Scaled all;
  all.logarithms = takes_logarithms(figures);
  all.values = figures.before;
  all.values.insert(all.values.end(), figures.after.begin(), figures.after.end());
  const double typical = side_value(all.values, all.logarithms);
  all.exact.floor =
      kRounding * kRounding + 2 * figures.resolution.bucket * figures.resolution.bucket;
  all.exact.noise = figures.resolution.noise / (typical * typical);
  if (all.logarithms) {
    // On a logarithmic scale, the unit's size depends on the figure. It is largest at the smallest
    // figure, so that size is taken.
    double least = std::numeric_limits<double>::infinity();
    for (const double value : all.values) least = std::fmin(least, value);
    all.exact.unit = std::log1p(figures.resolution.unit / least);
    for (double& value : all.values) value = std::log(value);
  } else {
    all.unit = typical;
    if (all.unit <= 0) return std::nullopt;  // all are 0
    all.exact.unit = figures.resolution.unit / all.unit;
    for (double& value : all.values) value /= all.unit;
  }
  const double middle = side_value(all.values, false);
  for (double& value : all.values) value -= middle;
  all.before = side_value(figures.before, all.logarithms);
  return all;
}

struct Difference {
  double effect = 0, unit = 0, error = 1, degrees = 1;
  [[nodiscard]] double t() const { return std::max(0.0, std::abs(effect) - unit) / error; }
};

struct Sums {
  double count = 0, sum = 0, squares = 0;
  void add(double value) {
    if (std::isnan(value)) return;
    ++count;
    sum += value;
    squares += value * value;
  }
  [[nodiscard]] double variance_of_mean(double least) const {
    return std::max(least, (squares - sum * sum / count) / (count - 1)) / count;
  }
};

std::optional<Difference> difference(const Scaled& figure, const std::vector<char>& is_before) {
  Sums before, after;
  for (std::size_t run = 0; run < is_before.size(); ++run)
    (is_before[run] != 0 ? before : after).add(figure.values[run]);
  if (std::min(before.count, after.count) < kFewestRuns) return std::nullopt;
  const Exactness& exact = figure.exact;
  const double a = before.variance_of_mean(exact.noise) + exact.floor / 2,
               b = after.variance_of_mean(exact.noise) + exact.floor / 2;
  Difference difference;
  difference.unit = exact.unit;
  difference.effect = after.sum / after.count - before.sum / before.count;
  difference.error = std::sqrt(a + b);
  difference.degrees = (a + b) * (a + b) / (a * a / (before.count - 1) + b * b / (after.count - 1));
  return difference;
}

// Goes through the choices of the runs that count as the side `before`: all choices, or so many
// random ones.
class Splits {
 public:
  Splits(std::size_t before, std::size_t after, std::size_t most, std::uint64_t seed)
      : before_(before), random_(seed), is_before_(before + after), order_(before + after) {
    std::fill_n(is_before_.begin(), before, 1);  // the first is the recorded one
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    double all = 1;
    for (std::size_t i = 1; i <= before; ++i)
      all = all * static_cast<double>(after + i) / static_cast<double>(i);
    drawn_ = all > static_cast<double>(most) + 0.5;
    size_ = drawn_ ? most : static_cast<std::size_t>(std::llround(all));
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Returns, by run, whether it counts as `before`.
  [[nodiscard]] const std::vector<char>& next() {
    if (std::exchange(first_, false)) return is_before_;
    if (!drawn_) {
      std::prev_permutation(is_before_.begin(), is_before_.end());
      return is_before_;
    }
    std::ranges::fill(is_before_, 0);
    for (std::size_t i = 0; i < before_; ++i) {
      std::swap(order_[i], order_[i + random_.below(order_.size() - i)]);
      is_before_[order_[i]] = 1;
    }
    return is_before_;
  }

 private:
  std::size_t before_, size_ = 0;
  bool drawn_ = false, first_ = true;
  Random random_;
  std::vector<char> is_before_;
  std::vector<std::size_t> order_;
};

// Returns the largest t of all figures in each split, the largest first.
std::vector<double> largest_of_splits(Splits splits,
                                      std::span<const std::optional<Scaled>> figures) {
  std::vector<double> largest(splits.size());
  for (double& most : largest) {
    const std::vector<char>& is_before = splits.next();
    for (const auto& figure : figures) {
      const auto found = figure ? difference(*figure, is_before) : std::nullopt;
      if (found) most = std::max(most, found->t());
    }
  }
  std::ranges::sort(largest, std::greater());
  return largest;
}

void set_interval(Change& change, const Difference& found, double reach, const Scaled& figure) {
  change.proven = found.t() > reach;
  const double width = found.unit + reach * found.error;
  const double low = found.effect - width, high = found.effect + width;
  if (figure.logarithms) {
    change.low = std::expm1(low);
    change.high = std::expm1(high);
  } else {
    const double before = figure.before / figure.unit;
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    change.low = before > 0 ? low / before : kInfinite;  // the change from 0 is infinite
    change.high = before > 0 ? high / before : kInfinite;
  }
}

}  // namespace

// A sum takes about 2 ns for each figure, run and split.
std::size_t most_splits(std::size_t figures, std::size_t runs) {
  constexpr std::size_t kMostSteps = 3'000'000'000, kFewestDrawn = 1'000;
  return std::clamp(kMostSteps / (figures * runs), kFewestDrawn, kMostSplits);
}

Tested test_together(std::span<const RunFigures> figures, Method method, double confidence,
                     std::uint64_t seed) {
  Tested result;
  result.changes.resize(figures.size());
  if (method == Method::kNone || figures.empty()) return result;
  std::vector<std::optional<Scaled>> all;
  for (const RunFigures& one : figures) {
    all.push_back(scaled(one));
    result.tests += all.back() ? 1u : 0u;
  }
  const double allowed = 1 - confidence;
  std::vector<double> largest;
  // The number of splits that may be as extreme as a change that counts as proven.
  std::size_t rare = 0;
  if (method == Method::kPermutation) {
    const auto any = std::find_if(all.begin(), all.end(), [](const auto& one) { return one; });
    if (any == all.end()) return result;
    const RunFigures& runs = figures[static_cast<std::size_t>(any - all.begin())];
    const std::size_t count = runs.before.size() + runs.after.size();
    const Splits splits(runs.before.size(), runs.after.size(), most_splits(result.tests, count),
                        seed);
    largest = largest_of_splits(splits, all);
    result.splits = splits.size();
    // Splits that mirror each other are equally extreme, except for rounding.
    rare = static_cast<std::size_t>(
               std::ceil(allowed * static_cast<double>(largest.size()) - kRounding)) -
           1;
    result.can_prove = rare > 0;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i]) continue;
    std::vector<char> is_before(all[i]->values.size());
    std::fill_n(is_before.begin(), figures[i].before.size(), 1);
    const Difference found = *difference(*all[i], is_before);
    Change& change = result.changes[i];
    change.tested = true;
    const StudentsT students_t(found.degrees);
    change.p = std::min(1.0, 2 * cdf(students_t, -found.t()));
    const double tests = static_cast<double>(result.tests);
    change.corrected_p = std::min(1.0, change.p * tests);
    double reach = quantile(complement(students_t, allowed / 2 / tests));
    if (method == Method::kPermutation) {
      // Both tests must agree: one is not misled by outliers, the other not by a side that varies
      // more.
      const double limit = found.t() * (1 - kRounding);
      const auto as_large =
          std::count_if(largest.begin(), largest.end(), [&](double one) { return one >= limit; });
      change.corrected_p = std::max(
          change.corrected_p, static_cast<double>(as_large) / static_cast<double>(largest.size()));
      reach = std::max(reach, result.can_prove ? largest[rare] * (1 + 2 * kRounding)
                                               : std::numeric_limits<double>::infinity());
    }
    set_interval(change, found, reach, *all[i]);
  }
  return result;
}

}  // namespace trapline
