// A comparison of runs, and its conditions. The statistics are those of compare_stats_test.cc.
#include "merge/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "merge/compare/compare_fail_if.h"

namespace trapline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A run of 10 s with rows "io" (around `io_ns`) and "msr". Runs of other seeds differ by some 2 %
// as a whole, and in their exits.
Recorded run(std::uint64_t seed, std::uint64_t io_ns) {
  Recorded recorded;
  recorded.path = fmt::format("run-{}", seed);
  Random random(seed);
  const std::uint64_t pace = 980 + random.below(40);
  for (std::uint64_t at = 0; at < 10'000'000'000; at += 1 + random.below(20'000'000)) {
    ExitSums& row = recorded.rows[random.below(2) == 0 ? "io" : "msr"];
    const std::uint64_t typical = &row == &recorded.rows["io"] ? io_ns : 2000;
    const std::uint64_t ns = typical * (80 + random.below(40)) * pace / 100'000;
    row.total.add(ns);
    row.parts[0] += ns;
    recorded.guest_ns = recorded.guest_ns.value_or(0) + 5'000'000;
    ++recorded.exits;
  }
  recorded.events = recorded.exits * 2;
  recorded.begin_ns = seed;
  recorded.wall_ns = 10'000'000'000 + seed;
  return recorded;
}

std::vector<Recorded> runs(std::size_t count, std::uint64_t first_seed, std::uint64_t io_ns) {
  std::vector<Recorded> side;
  for (std::size_t i = 0; i < count; ++i) side.push_back(run(first_seed + 2 * i, io_ns));
  return side;
}

// So many runs of each side, in turns.
Comparison compared(std::size_t count, std::uint64_t before_ns, std::uint64_t after_ns) {
  return compare(runs(count, 100, before_ns), runs(count, 101, after_ns), {});
}

const ComparedRow& row_of(const Comparison& comparison, const std::string& key) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.key == key) return row;
  }
  ADD_FAILURE() << "no row " << key;
  return comparison.rows.front();
}

TEST(CompareTest, FewerThanThreeRunsOfASideProveNothingWhateverTheyDifferBy) {
  for (const auto& [before, after] : {std::pair<std::size_t, std::size_t>{1, 1}, {2, 2}, {2, 9}}) {
    const Comparison comparison =
        compare(runs(before, 100, 10'000), runs(after, 101, 1'000'000), {});
    EXPECT_EQ(comparison.method, Method::kNone);
    EXPECT_EQ(comparison.proven_changes(), 0u);
    EXPECT_NEAR(row_of(comparison, "io").of(Metric::kMean).change, 99, 10);  // and yet it is shown
    EXPECT_FALSE(row_of(comparison, "io").of(Metric::kMean).test.tested);
  }
}

TEST(CompareTest, RunsOfOneGuestHaveNoProvenChange) {
  EXPECT_EQ(compared(3, 10'000, 10'000).proven_changes(), 0u);
  EXPECT_EQ(compared(5, 10'000, 10'000).proven_changes(), 0u);
}

TEST(CompareTest, ASlowerDeviceIsFoundInItsRowAlone) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{5}, std::size_t{8}}) {
    const Comparison comparison = compared(count, 10'000, 12'000);
    const ComparedRow& io = row_of(comparison, "io");
    for (const Metric metric : {Metric::kMean, Metric::kP50, Metric::kP99, Metric::kKernel}) {
      EXPECT_TRUE(io.of(metric).test.proven);
      EXPECT_NEAR(io.of(metric).change, 0.2, 0.04);
      EXPECT_LT(io.of(metric).test.low, 0.2);
      EXPECT_GT(io.of(metric).test.high, 0.2);
    }
    EXPECT_FALSE(io.of(Metric::kRate).test.proven);
    for (const MetricChange& metric : row_of(comparison, "msr").metrics) {
      EXPECT_FALSE(metric.test.proven);
    }
  }
}

// Stamps in µs: each duration is whole ones, as much more or less as the stamps' phase makes it.
TEST(CompareTest, OfCoarseStampsAPercentileProvesNothingBelowTheirUnit) {
  const auto side = [](std::uint64_t seed, std::uint64_t ns) {
    std::vector<Recorded> runs;
    for (std::size_t i = 0; i < 5; ++i) {
      Recorded& run = runs.emplace_back();
      run.unit = 1000;
      run.wall_ns = 1'000'000'000;
      Random random(seed + i);
      for (int exit = 0; exit < 400; ++exit)
        run.rows["io"].total.add((random.below(1000) + ns) / 1000 * 1000);
    }
    return runs;
  };
  const Comparison nearly_equal = compare(side(1, 1480), side(101, 1520), {});
  EXPECT_EQ(nearly_equal.unit, 1000u);
  const MetricChange& p50 = row_of(nearly_equal, "io").of(Metric::kP50);
  EXPECT_NEAR(p50.change, 1, 0.01);
  EXPECT_FALSE(p50.test.proven);
  EXPECT_LE(p50.test.low, 0.027);
  EXPECT_GE(p50.test.high, 0.027);
  const Comparison slower = compare(side(1, 10'000), side(101, 12'000), {});
  EXPECT_TRUE(row_of(slower, "io").of(Metric::kP50).test.proven);
  EXPECT_TRUE(
      row_of(compare(side(1, 1500), side(101, 1800), {}), "io").of(Metric::kMean).test.proven);
}

TEST(CompareTest, ARowOfOneSideIsNewOrGone) {
  std::vector<Recorded> before = runs(5, 100, 10'000), after = runs(5, 101, 10'000);
  for (Recorded& one : before) one.rows.erase("io");
  const Comparison comparison = compare(before, after, {});
  const ComparedRow& io = row_of(comparison, "io");
  EXPECT_TRUE(io.of(Metric::kRate).test.proven);
  EXPECT_TRUE(std::isinf(io.of(Metric::kRate).change));
  EXPECT_TRUE(std::isnan(io.of(Metric::kMean).change));
  EXPECT_FALSE(io.of(Metric::kMean).test.tested);
  const Comparison reversed = compare(after, before, {});
  const ComparedRow& gone = row_of(reversed, "io");
  EXPECT_TRUE(gone.of(Metric::kRate).test.proven);
  EXPECT_EQ(gone.of(Metric::kRate).change, -1);
}

TEST(CompareTest, AVmThatOneSideHasProvesNothing) {
  std::vector<Recorded> before = runs(5, 100, 10'000), after = runs(5, 101, 10'000);
  for (Recorded& one : before) one.rows.erase("io");
  CompareOptions by_vm;
  by_vm.dimensions = {Dimension::kVm};
  const Comparison comparison = compare(before, after, by_vm);
  EXPECT_FALSE(row_of(comparison, "io").of(Metric::kRate).test.tested);
  EXPECT_TRUE(row_of(comparison, "msr").of(Metric::kRate).test.tested);
}

TEST(CompareTest, AReasonThatIsNewInAVmOfBothSidesIsTested) {
  std::vector<Recorded> before = runs(5, 100, 10'000), after = runs(5, 101, 10'000);
  for (auto* side : {&before, &after})
    for (Recorded& one : *side)
      one.rows = {{"web01 / io", one.rows["io"]}, {"web01 / msr", one.rows["msr"]}};
  for (Recorded& one : before) one.rows.erase("web01 / msr");
  CompareOptions by_vm;
  by_vm.dimensions = {Dimension::kVm, Dimension::kReason};
  EXPECT_TRUE(row_of(compare(before, after, by_vm), "web01 / msr").of(Metric::kRate).test.tested);
}

TEST(CompareTest, ARowThatOneRunHasByChanceIsNotNew) {
  std::vector<Recorded> before = runs(5, 100, 10'000), after = runs(5, 101, 10'000);
  for (int i = 0; i < 500; ++i) after[2].rows["pause"].total.add(1'000'000);
  const Comparison comparison = compare(before, after, {});
  EXPECT_EQ(comparison.proven_changes(), 0u);
  EXPECT_TRUE(row_of(comparison, "pause").of(Metric::kRate).test.tested);
}

TEST(CompareTest, APercentileOfTooFewExitsAndAPartWithoutItsEventsAreNotKnown) {
  std::vector<Recorded> before = runs(1, 100, 10'000), after = runs(1, 101, 10'000);
  for (auto* side : {&before, &after}) {
    side->front().model.sched_switch = false;
    for (int i = 0; i < 99; ++i) side->front().rows["few"].total.add(1000);
  }
  const Comparison comparison = compare(before, after, {});
  EXPECT_TRUE(std::isnan(row_of(comparison, "few").of(Metric::kP99).before));
  EXPECT_EQ(row_of(comparison, "few").of(Metric::kP50).before, 1000);
  EXPECT_TRUE(std::isnan(row_of(comparison, "io").of(Metric::kPreempted).before));
  EXPECT_FALSE(std::isnan(row_of(comparison, "io").of(Metric::kKernel).before));
}

TEST(CompareTest, WithoutExitsToUserSpaceTheKernelsTimeMayBeQemus) {
  Comparison comparison;
  ComparedRow& io = comparison.rows.emplace_back();
  io.key = "io";
  const auto titles = [&] {
    const Report report = make_report(comparison);
    const auto changes = std::ranges::find(report.tables, "changes", &Table::key);
    const auto part = std::ranges::find(changes->columns, "kernel.change", &Table::Described::key);
    return std::vector{part == changes->columns.end() ? "none" : part->title,
                       report.tables.back().name(static_cast<std::size_t>(Metric::kKernel))};
  };
  EXPECT_THAT(titles(), testing::ElementsAre("kernel", "kernel of io"));
  comparison.model.userspace_exits = false;
  EXPECT_THAT(titles(), testing::ElementsAre("kernel or QEMU", "kernel or QEMU of io"));
}

TEST(CompareTest, OtherEventsLossesAndARunGivenTwiceAreRefusedWithAWayOut) {
  Recorded other = run(2, 10'000);
  other.model.user_end = UserEnd::kIoctl;
  auto checked = check_comparable({run(1, 10'000)}, {other}, false);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("sys_enter_ioctl"));
  Recorded lossy = run(2, 10'000);
  lossy.losses.lost_events = lossy.events / 10;
  checked = check_comparable({run(1, 10'000)}, {lossy}, false);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("larger buffer"));
  checked = check_comparable({run(1, 10'000), run(3, 10'000), run(1, 10'000)}, {run(2, 1)}, false);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(checked.error().message, HasSubstr("hold the same run"));
  EXPECT_TRUE(check_comparable({run(1, 10'000)}, {run(2, 10'000)}, false));
}

TEST(CompareTest, EventsThatOneSideLacksAreNamedWithTheSideThatHasThem) {
  const Recorded before = run(1, 10'000);
  Recorded after = run(2, 10'000);
  after.model.wakeups = false;
  const auto checked = check_comparable({before}, {after}, false);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              HasSubstr("wake-ups (sched_waking or sched_wakeup) were recorded in run-1 and not in "
                        "run-2"));
}

TEST(CompareTest, AFactThatOneSideDoesNotTellIsNoDifference) {
  Recorded before = run(1, 10'000), after = run(2, 10'000);
  before.facts["host"] = "Linux 6.1.0";
  after.facts["host"] = "";
  const auto untold = check_comparable({before}, {after}, false);
  ASSERT_TRUE(untold);
  EXPECT_TRUE(untold->empty());
  after.facts["host"] = "Linux 6.6.0";
  const auto told = check_comparable({before}, {after}, false);
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ(told->front(), "the host kernels differ: Linux 6.1.0 in run-1, Linux 6.6.0 in run-2");
}

TEST(CompareTest, WhatASessionLacksIsSaidOfEitherSide) {
  Recorded before = run(1, 10'000), after = run(2, 10'000);
  before.missing = {"3 pages of events could not be written"};
  after.missing = {"5 events were left in the kernel"};
  const auto checked = check_comparable({before}, {after}, false);
  ASSERT_TRUE(checked);
  EXPECT_THAT(*checked, ElementsAre("run-1: 3 pages of events could not be written",
                                    "run-2: 5 events were left in the kernel"));
}

TEST(CompareTest, SidesRecordedOneAfterTheOtherAreNoted) {
  const auto in_turns = check_comparable(runs(3, 1, 10'000), runs(3, 2, 10'000), false);
  ASSERT_TRUE(in_turns);
  EXPECT_TRUE(in_turns->empty());
  const auto one_by_one = check_comparable(runs(3, 1, 10'000), runs(3, 11, 10'000), false);
  ASSERT_TRUE(one_by_one);
  EXPECT_THAT(one_by_one->at(0), AllOf(HasSubstr("begin before all runs"), HasSubstr("in turns")));
}

std::vector<FailCondition> conditions(const std::vector<std::string>& texts) {
  std::vector<FailCondition> all;
  for (const std::string& text : texts) all.push_back(*parse_fail_condition(text));
  return all;
}

std::size_t failed(const Comparison& comparison, const std::vector<std::string>& texts) {
  return check_fail_conditions(comparison, conditions(texts))->failed.size();
}

TEST(FailConditionTest, IsMetByTheBoundAndNotByTheValue) {
  const Comparison comparison = compared(5, 10'000, 12'000);
  EXPECT_GT(row_of(comparison, "io").of(Metric::kMean).change, 0.17);
  EXPECT_EQ(failed(comparison, {"mean(io) > +10%"}), 1u);
  const double change = row_of(comparison, "io").of(Metric::kMean).change;
  EXPECT_EQ(failed(comparison, {fmt::format("mean(io) > +{}%", change * 100 - 0.1)}), 0u);
}

// One condition stands for itself, so its interval is the narrowest; with more rows or conditions
// each of them is wider.
TEST(FailConditionTest, AStarIsCorrectedForItsRows) {
  const Comparison comparison = compared(3, 10'000, 10'700);
  const auto highest_limit = [&](const std::vector<std::string>& others, const char* row) {
    double low = -1, high = 1;
    for (int i = 0; i < 40; ++i) {
      const double middle = (low + high) / 2;
      std::vector<std::string> texts = others;
      texts.insert(texts.begin(), fmt::format("mean({}) > {}%", row, middle * 100));
      (failed(comparison, texts) > 0 ? low : high) = middle;
    }
    return low;
  };
  const double alone = highest_limit({}, "io"), star = highest_limit({}, "*");
  const double of_three = highest_limit({"p50(io) > 99%", "mean(msr) > 99%"}, "io");
  EXPECT_LT(star, alone);
  EXPECT_LT(of_three, star);
  EXPECT_LT(row_of(comparison, "io").of(Metric::kMean).test.low, of_three);
}

TEST(FailConditionTest, OfSingleRunsTheValueDecidesAndTheTextSaysSo) {
  const Comparison comparison = compared(1, 10'000, 12'000);
  const auto verdict = check_fail_conditions(comparison, conditions({"mean(io) > +10%"}));
  ASSERT_TRUE(verdict);
  ASSERT_EQ(verdict->failed.size(), 1u);
  EXPECT_THAT(verdict->failed[0], HasSubstr("between these recordings"));
  EXPECT_EQ(failed(comparison, {"mean(io) > +40%"}), 0u);
}

TEST(FailConditionTest, WhatIsNoConditionIsRefused) {
  for (const char* text : {"", "p99(io)", "p98(io) > 1%", "p99() > 1%", "p99(io) = 1%",
                           "p99(io) > 1", "p99(io) > x%", "p99(io) > 1x%"}) {
    EXPECT_FALSE(parse_fail_condition(text)) << text;
  }
  const auto condition = parse_fail_condition("share( io / a(b) )<-2.5%");
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->row, "io / a(b)");
  EXPECT_FALSE(condition->above);
  EXPECT_DOUBLE_EQ(condition->limit, -0.025);
  const auto absent = check_fail_conditions(compared(1, 10'000, 10'000), {*condition});
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("io"));
}

}  // namespace
}  // namespace trapline
