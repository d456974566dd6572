// Guest sync records that were made inside the guest: read from files and markers, and put on the
// clock of the guest's recording.
#include "merge/clock/guest_syncs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "merge/session/guest_alignment.h"
#include "merge/source/uftrace/sync_file.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

GuestSyncLine line(const std::string& text) {
  const auto record = parse_guest_sync("trapline: guest 1 " + text);
  EXPECT_TRUE(record) << text;
  return {std::nullopt, record.value_or(GuestSyncRecord())};
}

TEST(GuestSyncFileTest, LinesMayHaveTheStampOfThePluginAndOthersArePassedOver) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "guest-syncs.txt";
  std::ofstream(path) << "# clock: mono\n"
                         "12 trapline: guest 1 7 0 before mono=5\n"
                         "trapline: guest 1 8 0 ptp=9:8:7 before mono=6\n"
                         "trapline: guest 1 8 x\n"
                         "nothing\n";
  const auto lines = read_sync_file(path)->guest;
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].stamp, 12u);
  EXPECT_EQ(lines[0].record.series, 7u);
  EXPECT_EQ(lines[1].stamp, std::nullopt);
  EXPECT_EQ(lines[1].record.ptp, (PtpReading{9, 8, 7}));
  std::remove(path.c_str());
  EXPECT_THAT(read_sync_file(path)->guest, SizeIs(0));
}

TEST(GuestSyncMarkersTest, MarkersThatWereTheActionRelateTheRecordingsClock) {
  GuestSyncMarkers markers;
  markers.add(5010, "trapline: guest 1 12 0 marker");
  markers.add(5020, "trapline: guest 1 12 1 marker");
  markers.add(5100, "trapline: guest 1 12 0 before mono=100 tsc=1\n");
  markers.add(5110, "trapline: guest 1 12 1 before mono=116 tsc=3 after mono=114 tsc=2\n");
  markers.add(5120, "trapline: guest 1 12 2 after mono=121 tsc=4\n");
  EXPECT_THAT(markers.lines(), SizeIs(3));
  const auto clocks = markers.clocks();
  ASSERT_THAT(clocks, SizeIs(2));
  EXPECT_EQ(clocks[0].point.stamp, 5010u);
  EXPECT_EQ(clocks[0].point.before.at(ClockId::kMono), 100u);
  EXPECT_EQ(clocks[0].point.after.at(ClockId::kMono), 114u);
  EXPECT_EQ(clocks[1].point.after.at(ClockId::kTsc), 4u);
}

TEST(GuestSyncMarkersTest, AMarkerWhoseTextIsLostRelatesNothing) {
  GuestSyncMarkers markers;
  markers.add(5010, "trapline: guest 1 12 0 marker");
  markers.add(5020, "trapline: guest 1 12 1 marker");
  markers.add(5100, "trapline: guest 1 12 0 before mono=100");
  markers.add(5120, "trapline: guest 1 12 2 after mono=121");
  EXPECT_THAT(markers.clocks(), SizeIs(0));
}

// A write between mono 1000 and 1100, seen from 8010 to 8060 by the host.
std::vector<ClockBound> bounds_of_a_write(const std::string& clock, bool cycles,
                                          const std::vector<clocks::SyncEntry>& brackets) {
  GuestBounds bounds(ClockId::kMono);
  const std::vector<GuestSyncLine> lines{line("8 0 port=0x80:0xabc before mono=1000000 tsc=500"),
                                         line("8 1 after mono=1000100 tsc=700")};
  EXPECT_TRUE(add_readings(bounds, lines, {clock, cycles, {}}, brackets));
  bounds.on_exit(ThreadId{1}, 8010);
  bounds.on_write(ThreadId{1}, false, 0x80, 0xabc);
  bounds.on_entry(ThreadId{1}, 8060);
  return bounds.bounds();
}

TEST(AddReadingsTest, OnTheirOwnClockReadingsAreTimes) {
  EXPECT_THAT(bounds_of_a_write("mono", false, {}),
              ElementsAre(ClockBound::at(1000000, ClockBound::kNoLow, 8010),
                          ClockBound::at(1000100, 8060, ClockBound::kNoHigh)));
}

TEST(AddReadingsTest, OfARecordingInCyclesTheCounterIsTheTime) {
  EXPECT_THAT(bounds_of_a_write("x86-tsc", true, {}),
              ElementsAre(ClockBound::at(500, ClockBound::kNoLow, 8010),
                          ClockBound::at(700, 8060, ClockBound::kNoHigh)));
}

TEST(AddReadingsTest, OnAnotherClockTheyAreWidenedByTheErrorOfTheRelation) {
  std::vector<clocks::SyncEntry> brackets;
  for (std::uint64_t i = 0; i < 4; ++i) {  // local is 4,000,000 ahead, known to 10 ns
    clocks::SyncEntry entry;
    entry.series = i;
    entry.point.stamp = 4'900'000 + i * 100'000;
    entry.point.before.values[0] = 900'000 + i * 100'000 - 10;
    entry.point.after.values[0] = 900'000 + i * 100'000 + 10;
    brackets.push_back(entry);
  }
  const auto bounds = bounds_of_a_write("local", false, brackets);
  ASSERT_THAT(bounds, SizeIs(2));
  EXPECT_LE(bounds[0].source(), 5'000'000u);
  EXPECT_GE(bounds[0].source(), 5'000'000u - 40);
  EXPECT_GE(bounds[1].source(), 5'000'100u);
  EXPECT_LE(bounds[1].source(), 5'000'100u + 40);
}

TEST(AddReadingsTest, AClockThatNothingRelatesIsAnError) {
  GuestBounds bounds(ClockId::kMono);
  const std::vector<GuestSyncLine> lines{line("8 0 before mono=5")};
  EXPECT_FALSE(add_readings(bounds, lines, {"local", false, {}}, {}));
}

TEST(PtpTest, OneMomentOnTwoClocksBoundsThemFromBothSides) {
  GuestBounds bounds(ClockId::kMono);
  (void)add_readings(bounds,
                     {line("3 0 ptp=9000:6050:1 before mono=1000"), line("3 1 after mono=1100")},
                     {"mono"}, {});
  EXPECT_THAT(bounds.host_real_bounds(),
              ElementsAre(ClockBound::at(1000, ClockBound::kNoLow, 9000),
                          ClockBound::at(1100, 9000, ClockBound::kNoHigh)));
  EXPECT_EQ(bounds.counters().ptp, 1u);
}

// Between wall clock and mono there is one number in all of a series: 5,000, which the first
// reading knows to [4950, 5050] and the second to [4990, 5010].
TEST(PtpTest, ASeriesNarrowsItsWideReadings) {
  GuestBounds bounds(ClockId::kMono);
  (void)add_readings(
      bounds,
      {line("3 0 ptp=9000:6050:1 before mono=1000"),
       line("3 1 ptp=9980:7030:1 before mono=2020 after mono=1100"), line("3 2 after mono=2040")},
      {"mono"}, {});
  EXPECT_THAT(bounds.host_real_bounds(),
              ElementsAre(ClockBound::at(1040, ClockBound::kNoLow, 9000),
                          ClockBound::at(1060, 9000, ClockBound::kNoHigh),
                          ClockBound::at(2020, ClockBound::kNoLow, 9980),
                          ClockBound::at(2040, 9980, ClockBound::kNoHigh)));
}

TEST(PtpTest, AWallClockThatIsBehindMonoNarrowsNothing) {
  GuestBounds bounds(ClockId::kMono);
  (void)add_readings(bounds,
                     {line("3 0 ptp=9000:50:1 before mono=1000"), line("3 1 after mono=1100")},
                     {"mono"}, {});
  EXPECT_THAT(bounds.host_real_bounds(),
              ElementsAre(ClockBound::at(1000, ClockBound::kNoLow, 9000),
                          ClockBound::at(1100, 9000, ClockBound::kNoHigh)));
}

TEST(ThreadOfCpuTest, VcpusAreCountedWhereTheirIdsLeaveNumbersOut) {
  const std::map<std::int32_t, ThreadId> dense{{0, ThreadId{10}}, {1, ThreadId{11}}};
  EXPECT_EQ(thread_of_cpu(dense, 1), ThreadId{11});
  EXPECT_EQ(thread_of_cpu(dense, 2), std::nullopt);
  EXPECT_EQ(thread_of_cpu(dense, kNoVcpu), std::nullopt);
  const std::map<std::int32_t, ThreadId> sparse{
      {0, ThreadId{10}}, {2, ThreadId{12}}, {4, ThreadId{14}}};
  EXPECT_EQ(thread_of_cpu(sparse, 2), ThreadId{14});
}

TEST(TimeSampleTest, KeepsEachOfAFewOnce) {
  TimeSample sample;
  for (std::uint64_t i = 0; i < 3; ++i) sample.add(0, 1000 + i);
  EXPECT_THAT(sample.take().at(0), ElementsAre(1000, 1001, 1002));
}

TEST(TimeSampleTest, KeepsTheFirstAndTheLastOfMany) {
  TimeSample sample;
  const std::uint64_t many = 5 * TimeSample::kMost;
  for (std::uint64_t i = 0; i < many; ++i) sample.add(0, 1000 + i);
  const auto times = sample.take();
  ASSERT_TRUE(times.contains(0));
  EXPECT_LE(times.at(0).size(), 2 * TimeSample::kMost + 1);
  EXPECT_GE(times.at(0).size(), TimeSample::kMost);
  EXPECT_EQ(times.at(0).front(), 1000u);
  EXPECT_EQ(times.at(0).back(), 999 + many);
}

}  // namespace
}  // namespace trapline
