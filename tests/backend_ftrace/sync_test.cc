#include "backend_ftrace/sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend_ftrace/clock.h"

namespace trapline {
namespace {

std::string text_of(const SyncRecord& record) {
  char text[kMaxSyncText];
  return {text, format_sync(record, text)};
}

TEST(Clock, NamesGoBothWaysAndFtracesOwnAreKnown) {
  for (std::size_t i = 0; i < kClockNames.size(); ++i) {
    const auto clock = static_cast<ClockId>(i);
    EXPECT_EQ(clock_from_name(clock_name(clock)), clock);
  }
  EXPECT_EQ(clock_from_name("x86-tsc"), ClockId::kTsc);
  EXPECT_FALSE(clock_from_name("tsc2nsec"));
  EXPECT_EQ(selected_clock("local global [mono_raw] boot\n"), "mono_raw");
  EXPECT_FALSE(selected_clock("mono"));
  EXPECT_FALSE(is_readable(ClockId::kLocal));
  EXPECT_EQ(read_clock(ClockId::kPerf), 0u);
}

TEST(Sync, ARecordComesBackAsItWasWritten) {
  SyncRecord record;
  record.series = UINT64_MAX;
  record.index = UINT32_MAX;
  record.before =
      ClockReadings{{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
  record.after = ClockReadings{{1, 2, 3, 4, 5, 0}};
  const std::string text = text_of(record);
  EXPECT_LT(text.size(), kMaxSyncText);
  EXPECT_TRUE(text.ends_with(" after mono=1 mono_raw=2 boot=3 tai=4 real=5")) << text;
  const auto read = parse_sync(text + "\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->series, record.series);
  EXPECT_EQ(read->index, record.index);
  EXPECT_EQ(read->before->values, record.before->values);
  EXPECT_EQ(read->after->values, record.after->values);
}

TEST(Sync, DamagedRecordsAreRefusedAndUnknownClocksSkipped) {
  EXPECT_TRUE(parse_sync("trapline: sync 1 7 0 before mono=5 atomic=9"));
  for (const char* bad :
       {"", "trapline: sync 1 ", "trapline: sync 2 7 0 before mono=1", "trapline: sync 1 7 0",
        "trapline: sync 1 7 x before mono=1", "trapline: sync 1 7 0 mono=1",
        "trapline: sync 1 7 0 before mono=", "trapline: sync 1 7 0 before mono=-1",
        "trapline: sync 1 7 0 before mono=99999999999999999999", "trapline: sync 1 7 0 before m",
        "trapline: sync 1 7 0 before mono=1 before mono=2"}) {
    EXPECT_FALSE(parse_sync(bad)) << bad;
  }
}

TEST(Sync, TheFirstRecordNotesHowTheKernelAdjustsItsClocks) {
  SyncRecord record;
  record.series = 7;
  record.before = ClockReadings{{5}};
  record.adjustment = ClockAdjustment{8193, -65'536, 9'999, -120, 6, 3};
  const std::string text = text_of(record);
  EXPECT_EQ(text, "trapline: sync 1 7 0 ntp=8193:-65536:9999:-120:6:3 before mono=5");
  const auto read = parse_sync(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->adjustment, record.adjustment);
  EXPECT_FALSE(parse_sync("trapline: sync 1 7 0 ntp=1:2 before mono=5")->adjustment);
  // Every bracket of its series has it, none of another one's.
  SyncCollector collector;
  EXPECT_FALSE(collector.add(*read, 10));
  for (std::uint32_t index = 1; index < 3; ++index) {
    const ClockReadings after{{index * 10}}, before{{index * 10 + 1}};
    const auto point = collector.add({7, index, before, after}, 20);
    ASSERT_TRUE(point);
    EXPECT_EQ(point->adjustment, record.adjustment);
  }
  EXPECT_FALSE(collector.add({8, 0, ClockReadings{{40}}, std::nullopt}, 40));
  EXPECT_FALSE(collector.add({8, 1, std::nullopt, ClockReadings{{50}}}, 50)->adjustment);
}

TEST(Sync, ASeriesGivesOneBracketForEachTry) {
  SyncSeries series(3);
  SyncCollector collector;
  std::vector<SyncPoint> points;
  char text[kMaxSyncText];
  while (const std::size_t size = series.next(text)) {
    const std::uint64_t stamp = read_clock(ClockId::kMono);
    series.written();
    const auto record = parse_sync({text, size});
    ASSERT_TRUE(record);
    if (auto point = collector.add(*record, stamp)) points.push_back(*point);
  }
  ASSERT_EQ(points.size(), 3u);
  for (const SyncPoint& point : points) {
    EXPECT_LE(point.before.at(ClockId::kMono), point.stamp);
    EXPECT_GE(point.after.at(ClockId::kMono), point.stamp);
    EXPECT_GT(point.before.at(ClockId::kReal), 0u);
  }
}

TEST(Sync, ALostMarkerCostsItsOwnBracketsOnly) {
  SyncCollector collector;
  const auto record = [](std::uint64_t series, std::uint32_t index, bool after) {
    SyncRecord made{series, index, ClockReadings{{100u * index + 1}}, std::nullopt};
    if (after) made.after = ClockReadings{{100u * index}};
    return made;
  };
  EXPECT_FALSE(collector.add(record(1, 0, false), 50));
  EXPECT_TRUE(collector.add(record(1, 1, true), 150));
  EXPECT_FALSE(collector.add(record(1, 3, true), 350));  // 2 is lost
  EXPECT_TRUE(collector.add(record(1, 4, true), 450));
  EXPECT_FALSE(collector.add(record(2, 5, true), 550));  // another series
}

}  // namespace
}  // namespace trapline
