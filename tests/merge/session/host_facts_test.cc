#include "merge/session/host_facts.h"

#include <gmock/gmock.h>

namespace trapline {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

clocks::SyncEntry bracket(std::uint64_t series, std::uint64_t stamp, std::uint64_t real,
                          std::uint64_t width) {
  clocks::SyncEntry entry;
  entry.series = series;
  entry.point.stamp = stamp;
  const auto set = [&](ClockReadings& readings, std::uint64_t by) {
    readings.values[static_cast<std::size_t>(ClockId::kMono)] = stamp + by;
    readings.values[static_cast<std::size_t>(ClockId::kReal)] = real + by;
  };
  set(entry.point.before, 0);
  set(entry.point.after, width);
  return entry;
}

TEST(WallClockTest, TwoSeriesTellTheRate) {
  const std::vector<clocks::SyncEntry> entries = {
      bracket(1, kSecond, 100 * kSecond, 0), bracket(2, 11 * kSecond, 110 * kSecond + 10'000, 0)};
  const auto wall = wall_clock_of(entries);
  ASSERT_TRUE(wall);
  EXPECT_NEAR(static_cast<double>(wall->at(Timestamp(6 * kSecond)) - 105 * kSecond), 5'000, 1);
}

TEST(WallClockTest, AClockThatWasSetMeanwhileHasNoRate) {
  const std::vector<clocks::SyncEntry> entries = {bracket(1, kSecond, 100 * kSecond, 0),
                                                  bracket(2, 11 * kSecond, 4000 * kSecond, 0)};
  EXPECT_EQ(wall_clock_of(entries)->at(Timestamp(2 * kSecond)), 101 * kSecond);
}

TEST(WallClockTest, WithoutReadingsOfItThereIsNone) {
  EXPECT_FALSE(wall_clock_of({}));
  EXPECT_FALSE(wall_clock_of({bracket(1, 100, 0, 0)}));
}

}  // namespace
}  // namespace trapline
