// The statistics of runs: how often they claim falsely, and what they find.
#include "merge/compare/compare_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <set>

namespace trapline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  double uniform() { return (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  // Student's with two degrees of freedom: its variance is infinite.
  double heavy() {
    const double u = 2 * uniform() - 1;
    return u * std::sqrt(2 / (1 - u * u));
  }
  Random& random() { return random_; }

 private:
  Random random_;
};

// One run: its figures' logarithms.
using Run = std::vector<double>;
using NextRun = std::function<Run(Draw&)>;
constexpr std::size_t kFigures = 40;
const Resolution kExact(0, 0, 0);

// What all figures of a run share, and what each has of its own.
Run run_of(Draw& draw, double shared, const std::function<double()>& own) {
  const double pace = draw.uniform();
  Run run;
  for (std::size_t i = 0; i < kFigures; ++i) run.push_back(0.02 * (shared * (1 + pace) + own()));
  return run;
}

// `count` runs of each side in turns, as bench records them; the first figure of those after is
// longer by `shift`, and all of theirs vary so many times as much.
std::vector<RunFigures> sides(Draw& draw, std::size_t count, const NextRun& next, double shift,
                              double spread) {
  std::vector<RunFigures> figures(kFigures, {{}, {}, kExact});
  const auto add = [&](bool is_after) {
    const Run run = next(draw);
    for (std::size_t i = 0; i < kFigures; ++i) {
      (is_after ? figures[i].after : figures[i].before)
          .push_back(std::exp(run[i] * (is_after ? spread : 1) + (is_after && i == 0 ? shift : 0)));
    }
  };
  for (std::size_t pair = 0; pair < count; ++pair) {
    const bool first = draw.random().below(2) == 1;
    add(first);
    add(!first);
  }
  return figures;
}

struct Rates {
  double claims = 0, found = 0, covered = 0;
};
// Of comparisons: those with a claim about a figure without a shift, and with one about the first;
// the intervals, together, that hold the truth.
Rates rates(std::size_t count, double shift, const std::function<NextRun()>& make,
            double spread = 1) {
  constexpr std::size_t kTimes = 400;
  Draw draw(17);
  Rates rates;
  for (std::size_t time = 0; time < kTimes; ++time) {
    const NextRun next = make();
    const auto figures = sides(draw, count, next, shift, spread);
    const Tested tested = test_together(figures, method_for(count, count), 0.95, 1);
    bool claim = false, all_hold = true;
    for (std::size_t i = 0; i < kFigures; ++i) {
      const Change& change = tested.changes[i];
      const double truth = i == 0 ? std::expm1(shift) : 0;
      claim |= change.proven && truth == 0;
      all_hold &= change.low <= truth && truth <= change.high;
    }
    rates.claims += claim ? 1.0 / kTimes : 0;
    rates.found += tested.changes[0].proven ? 1.0 / kTimes : 0;
    rates.covered += all_hold ? 1.0 / kTimes : 0;
  }
  return rates;
}

NextRun normal_runs() {
  return [](Draw& draw) { return run_of(draw, draw.normal(), [&] { return draw.normal(); }); };
}
NextRun heavy_runs() {
  return [](Draw& draw) { return run_of(draw, draw.heavy(), [&] { return draw.heavy(); }); };
}
// A host whose load comes and goes over several runs.
NextRun drifting_runs() {
  return [level = 0.0](Draw& draw) mutable {
    level = 0.9 * level + draw.normal();
    return run_of(draw, level, [&] { return draw.normal(); });
  };
}
// A host with two loads; it stays in one for some runs.
NextRun two_loads() {
  return [loaded = false](Draw& draw) mutable {
    if (draw.uniform() < 0.3) loaded = !loaded;
    return run_of(draw, loaded ? 10 : 0, [&] { return draw.normal(); });
  };
}

// 400 comparisons that claim falsely in 5 % of cases have 20 ± 4.4 such claims.
constexpr double kMostClaims = 0.08;

TEST(CompareStatsTest, RunsOfOneKindAreSeldomClaimedToDiffer) {
  const std::pair<const char*, std::function<NextRun()>> kinds[] = {{"normal", normal_runs},
                                                                    {"heavy", heavy_runs},
                                                                    {"drifting", drifting_runs},
                                                                    {"two loads", two_loads}};
  for (const auto& [name, make] : kinds) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{4}, std::size_t{5}}) {
      const Rates got = rates(count, 0, make);
      EXPECT_LE(got.claims, kMostClaims) << name << ", " << count << " runs";
      EXPECT_GE(got.covered, 1 - kMostClaims) << name << ", " << count << " runs";
      RecordProperty(std::string(name) + std::to_string(count), std::to_string(got.claims));
    }
  }
}

TEST(CompareStatsTest, ASideThatVariesMoreIsSeldomClaimedToHaveAnotherMean) {
  EXPECT_LE(rates(5, 0, normal_runs, 10).claims, kMostClaims);
  EXPECT_LE(rates(5, 0, heavy_runs, 10).claims, kMostClaims);
  // Welch's degrees are too many for three such runs; docs/diff.md says so.
  EXPECT_LE(rates(3, 0, normal_runs, 10).claims, 0.13);
}

// A run's figures vary by some 3.6 %, so 10 % are less than three standard deviations.
TEST(CompareStatsTest, AShiftIsFoundAndTheIntervalsHoldIt) {
  const Rates ten = rates(5, std::log(1.1), normal_runs);
  EXPECT_GE(ten.found, 0.15);
  EXPECT_LE(ten.claims, kMostClaims);
  EXPECT_GE(ten.covered, 1 - kMostClaims);
  const Rates twenty = rates(5, std::log(1.2), normal_runs);
  EXPECT_GE(twenty.found, 0.9);
  EXPECT_GE(twenty.covered, 1 - kMostClaims);
  EXPECT_GE(rates(4, std::log(1.4), normal_runs).found, 0.8);
}

Change alone(std::vector<double> before, std::vector<double> after, double confidence = 0.95) {
  const RunFigures figures{std::move(before), std::move(after), kExact};
  const Method method = method_for(figures.before.size(), figures.after.size());
  return test_together({&figures, 1}, method, confidence, 1).changes[0];
}

TEST(CompareStatsTest, FiveAgainstFiveHaveAPermutationTestsPValue) {
  const Change apart = alone({10, 11, 12, 13, 14}, {110, 120, 130, 140, 150});
  EXPECT_LT(apart.p, 1e-6);
  EXPECT_NEAR(apart.corrected_p, 2.0 / 252, 1e-12);
  EXPECT_TRUE(apart.proven);
  EXPECT_GT(apart.low, 0);
}

TEST(CompareStatsTest, FourAgainstFourAreStudents) {
  // t = 3.0996 with 5.9994 degrees of freedom.
  const Change change = alone({10, 11, 12, 13}, {13, 14, 15, 17});
  EXPECT_NEAR(change.p, 0.02113, 1e-5);
  EXPECT_TRUE(change.proven);
}

TEST(CompareStatsTest, OneOutlierIsNoChange) {
  EXPECT_FALSE(alone({10, 10.1, 9.9, 10, 10.2}, {10.1, 10, 9.9, 10.2, 1000}).proven);
  EXPECT_FALSE(alone({10, 10.1, 9.9}, {10.1, 10, 1000}).proven);
}

TEST(CompareStatsTest, EqualFiguresDoNotDiffer) {
  const Change same = alone({7, 7, 7, 7, 7}, {7, 7, 7, 7, 7});
  EXPECT_TRUE(same.tested);
  EXPECT_FALSE(same.proven);
  EXPECT_EQ(same.corrected_p, 1);
  EXPECT_FALSE(alone({7, 7, 7}, {7, 7, 7}).proven);
  EXPECT_FALSE(alone({0, 0, 0}, {0, 0, 0}).tested);
}

TEST(CompareStatsTest, TheSameNeighbouringBucketInEveryRunIsNoChange) {
  const RunFigures figures{{1000, 1000, 1000}, {1004, 1004, 1004}, Resolution(1.0 / 256, 0, 0)};
  EXPECT_FALSE(test_together({&figures, 1}, Method::kStudent, 0.95, 1).changes[0].proven);
}

// With stamps of 1000 ns an exit of 1500 ns lasts 1000 or 2000 ns, by chance in all runs of a side.
TEST(CompareStatsTest, NeighbouringUnitsInEveryRunAreNoChangeAndMoreIs) {
  const auto change = [](double before, double after) {
    RunFigures figures{std::vector<double>(5, before), std::vector<double>(5, after),
                       Resolution(0.001, 1000, 0)};
    return test_together({&figures, 1}, Method::kPermutation, 0.95, 1).changes[0];
  };
  for (const Change& unit : {change(1000, 2000), change(2000, 1000), change(0, 1000)}) {
    EXPECT_TRUE(unit.tested);
    EXPECT_FALSE(unit.proven);
    EXPECT_NEAR(unit.p, 1, 1e-9);
  }
  EXPECT_LE(change(1000, 2000).low, 0);
  EXPECT_GT(change(1000, 2000).high, 2);
  EXPECT_TRUE(change(1000, 3000).proven);
  EXPECT_TRUE(change(0, 2000).proven);
  EXPECT_TRUE(change(10'000, 12'000).proven);
}

// It counts in no other figure's splits either.
TEST(CompareStatsTest, AChangeOfAUnitHidesNoOtherFigures) {
  RunFigures coarse{{1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, Resolution(0, 1, 0)};
  std::vector<RunFigures> figures(10, coarse);
  for (std::size_t i = 0; i < figures.size(); ++i)
    std::swap(figures[i].before[i / 2], figures[i].after[0]);
  figures.push_back({{10, 11, 12, 11, 10}, {20, 21, 22, 21, 20}, kExact});
  const Tested tested = test_together(figures, Method::kPermutation, 0.95, 1);
  EXPECT_NEAR(tested.changes.back().corrected_p, 2.0 / 252, 1e-9);
}

TEST(CompareStatsTest, RunsThatAgreeBetterThanTheirStampsProveNoMore) {
  RunFigures figures{{100, 100.01, 100}, {101, 101, 101.01}, kExact};
  const auto change = [&] {
    return test_together({&figures, 1}, Method::kStudent, 0.95, 1).changes[0];
  };
  EXPECT_TRUE(change().proven);
  figures.resolution.noise = 1;
  EXPECT_FALSE(change().proven);
}

TEST(CompareStatsTest, ZerosAreComparedAsTheyAre) {
  EXPECT_FALSE(alone({0, 0, 0, 0, 0}, {0, 0, 3, 0, 0}).proven);
  const Change appeared = alone({0, 0, 0, 0, 0}, {3, 4, 3, 5, 3});
  EXPECT_TRUE(appeared.proven);
  EXPECT_TRUE(std::isinf(appeared.low));
  const Change fewer = alone({3, 4, 3, 5, 3}, {0, 0, 1, 0, 0});
  EXPECT_TRUE(fewer.proven);
  EXPECT_LT(fewer.high, 0);
}

TEST(CompareStatsTest, AFigureThatFewerThanThreeRunsHaveIsNotTested) {
  EXPECT_FALSE(alone({1, kNone, 1, kNone, kNone}, {2, 2, 2, 2, 2}).tested);
  EXPECT_TRUE(alone({1, kNone, 1, kNone, 1.1}, {2, 2.1, 2, 2, 2}).tested);
}

TEST(CompareStatsTest, TooFewSplitsForTheConfidenceProveNothing) {
  const RunFigures figures{{1, 2, 3, 4, 5}, {101, 102, 103, 104, 105}, kExact};
  const Tested tested = test_together({&figures, 1}, Method::kPermutation, 0.999, 1);
  EXPECT_FALSE(tested.can_prove);
  EXPECT_FALSE(tested.changes[0].proven);
}

TEST(CompareStatsTest, ManyRunsAreSplitAtRandomAndTheSameForTheSameSeed) {
  RunFigures figures{{}, {}, kExact};
  for (int i = 0; i < 12; ++i) {
    figures.before.push_back(100 + i);
    figures.after.push_back(103 + i);
  }
  const auto p = [&](std::uint64_t seed) {
    const Tested tested = test_together({&figures, 1}, Method::kPermutation, 0.95, seed);
    EXPECT_EQ(tested.splits, kMostSplits);
    return tested.changes[0].corrected_p;
  };
  EXPECT_EQ(p(1), p(1));
  EXPECT_NEAR(p(1), p(2), 0.02);
  // One test, nearly normal: the permutation agrees with Student's t.
  EXPECT_NEAR(p(1), alone(figures.before, figures.after).p, 0.02);
}

// More of them than are summed at once, and one that some runs have not.
TEST(CompareStatsTest, AFigureHasTheSameResultWhereverItStandsAmongOthers) {
  const RunFigures other{{1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}, kExact};
  const RunFigures figure{{1, 1.1, kNone, 1.2, 0.9}, {2, kNone, 2.3, 1.9, 2.2}, kExact};
  std::set<double> found;
  for (std::size_t place = 0; place < 20; ++place) {
    std::vector<RunFigures> figures(20, other);
    figures[place] = figure;
    const Tested tested = test_together(figures, Method::kPermutation, 0.9, 1);
    EXPECT_EQ(tested.splits, 252u);
    found.insert({tested.changes[place].corrected_p, tested.changes[place].low});
  }
  EXPECT_EQ(found.size(), 2u);
}

TEST(CompareStatsTest, FewerSplitsAreLookedAtWhereFiguresAndRunsAreMany) {
  EXPECT_EQ(most_splits(1, 10), kMostSplits);
  EXPECT_EQ(most_splits(5'000, 40), kMostSplits);
  EXPECT_EQ(most_splits(1'200, 1'000), 2'500u);
  EXPECT_EQ(most_splits(1'000'000, 1'000), 1'000u);
}

}  // namespace
}  // namespace trapline
