// What guest sync records and a host's recording say together about the two clocks.
#include "merge/clock/guest_bounds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "merge/clock/guest_run_intervals.h"

namespace trapline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ThreadId kThread{7};

class GuestBoundsTest : public ::testing::Test {
 protected:
  void record(std::uint64_t stamp, const std::string& text) {
    const auto parsed = parse_guest_sync("trapline: guest 1 " + text);
    ASSERT_TRUE(parsed) << text;
    bounds_.add(*parsed, stamp, stamp, true);
  }
  void printed(const std::string& text) {
    const auto parsed = parse_guest_sync("trapline: guest 1 " + text);
    ASSERT_TRUE(parsed) << text;
    const auto read = [](const auto& reading) { return reading ? reading->clock : 0; };
    bounds_.add(*parsed, read(parsed->before), read(parsed->after), false);
  }
  void write(std::uint64_t exit, std::uint64_t entry, std::uint64_t value,
             std::uint64_t port = 0x80) {
    bounds_.on_exit(kThread, exit);
    bounds_.on_write(kThread, false, port, value);
    bounds_.on_entry(kThread, entry);
  }
  GuestBounds bounds_{ClockId::kMono};
};

TEST_F(GuestBoundsTest, AWriteBetweenTwoStampsBoundsTheirClockOnBothSides) {
  record(100, "1 0 port=0x80:0xabc before tsc=5");
  record(180, "1 1 after tsc=9");
  write(1120, 1170, 0xabc);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(100, ClockBound::kNoLow, 1120),
                                            ClockBound::at(180, 1170, ClockBound::kNoHigh)));
  EXPECT_EQ(bounds_.counters().exits, 1u);
}

TEST_F(GuestBoundsTest, TheEndOfOneWriteAndTheBeginningOfTheNextAreOneMoment) {
  record(100, "1 0 port=0x80:0xa before tsc=5");
  record(180, "1 1 port=0x80:0xb before tsc=6 after tsc=6");
  record(260, "1 2 after tsc=9");
  write(1120, 1170, 0xa);
  write(1190, 1250, 0xb);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(100, ClockBound::kNoLow, 1120),
                                            ClockBound::at(180, 1170, 1190),
                                            ClockBound::at(260, 1250, ClockBound::kNoHigh)));
}

TEST_F(GuestBoundsTest, WithoutThePluginTheGuestsOwnReadingsAreTheSource) {
  printed("1 0 port=0x80:0xabc before mono=100 tsc=5");
  printed("1 1 after mono=180 tsc=9");
  write(1120, 1170, 0xabc);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(100, ClockBound::kNoLow, 1120),
                                            ClockBound::at(180, 1170, ClockBound::kNoHigh)));
}

TEST_F(GuestBoundsTest, ReadingsCountWhenTheGuestItselfMadeTheRecording) {
  record(100, "1 0 before mono=1100");
  record(105, "1 1 after mono=1103");
  EXPECT_THAT(bounds_.bounds(), IsEmpty()) << "nothing says whose clock the recording has";
  EXPECT_FALSE(bounds_.made_by_the_guest());
  bounds_.on_marker(1200, "trapline: guest 1 1 0 before mono=1100\n");
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(100, 1100, 1103)));
  EXPECT_TRUE(bounds_.made_by_the_guest());
  EXPECT_EQ(bounds_.counters().readings, 1u);
}

TEST_F(GuestBoundsTest, AMarkersStampServesForClocksThatNobodyCanRead) {
  bounds_ = GuestBounds(std::nullopt);
  record(100, "1 0 before mono=77");
  record(130, "1 1 before mono=79 after mono=79");
  record(150, "1 2 after mono=80");
  bounds_.on_marker(5110, "trapline: guest 1 1 0 marker");
  bounds_.on_marker(5140, "trapline: guest 1 1 1 marker");
  bounds_.on_marker(5190, "trapline: guest 1 1 0 before mono=77");  // the text of it says no time
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(100, ClockBound::kNoLow, 5110),
                                            ClockBound::at(130, 5110, 5140),
                                            ClockBound::at(150, 5140, ClockBound::kNoHigh)));
  EXPECT_EQ(bounds_.counters().markers, 2u);
}

TEST_F(GuestBoundsTest, AValueThatIsSeenTwiceSaysNothing) {
  record(100, "1 0 port=0x80:0xabc before tsc=5");
  record(180, "1 1 after tsc=9");
  write(1120, 1170, 0xabc);
  write(2120, 2170, 0xabc);
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
}

TEST_F(GuestBoundsTest, OtherWritesPortsAndValuesAreNotMeant) {
  record(100, "1 0 port=0x80:0xabc before tsc=5");
  record(180, "1 1 after tsc=9");
  write(1000, 1010, 0xabd);
  write(1020, 1030, 0xabc, 0x81);
  bounds_.on_exit(kThread, 1040);
  bounds_.on_write(kThread, true, 0x80, 0xabc);  // MMIO
  bounds_.on_entry(kThread, 1050);
  bounds_.on_write(kThread, false, 0x80, 0xabc);  // outside of any exit
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
}

TEST_F(GuestBoundsTest, AHoleInTheRecordingCostsTheExitThatItCuts) {
  record(100, "1 0 port=0x80:0xa before tsc=5");
  record(180, "1 1 port=0x80:0xb before tsc=6 after tsc=6");
  record(260, "1 2 after tsc=9");
  bounds_.on_exit(kThread, 1120);
  bounds_.on_write(kThread, false, 0x80, 0xa);
  Event lost;
  lost.payload = Lost{};
  bounds_.on_event(lost);
  bounds_.on_entry(kThread, 1170);
  write(1190, 1250, 0xb);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(180, ClockBound::kNoLow, 1190),
                                            ClockBound::at(260, 1250, ClockBound::kNoHigh)));
}

TEST_F(GuestBoundsTest, ALostRecordCostsItsTwoBracketsOnly) {
  record(100, "1 0 port=0x80:0xa before tsc=5");
  record(260, "1 2 port=0x80:0xc before tsc=8 after tsc=7");
  record(300, "1 3 after tsc=9");
  write(1120, 1170, 0xa);
  write(1280, 1290, 0xc);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(260, ClockBound::kNoLow, 1280),
                                            ClockBound::at(300, 1290, ClockBound::kNoHigh)));
}

TEST_F(GuestBoundsTest, NoMoreRecordsAreKeptThanMemoryAllows) {
  for (std::uint32_t i = 0; i < GuestBounds::kMaxRecords + 10; ++i)
    record(i + 1, fmt::format("1 {} before mono=1 after mono=1", i));
  bounds_.on_marker(1, "trapline: guest 1 1 0 before mono=1");
  EXPECT_EQ(bounds_.bounds().size(), GuestBounds::kMaxRecords - 1);
}

// Of a plugin's stamps only series count of which the recording shows an exit: others may be of a
// guest that the recording's host does not run.
TEST_F(GuestBoundsTest, TheTscOffsetMakesTheGuestsReadingsTheHosts) {
  bounds_ = GuestBounds(ClockId::kTsc);
  record(100, "1 0 before tsc=50");
  record(180, "1 1 after tsc=90");
  bounds_.on_tsc_offset(kThread, static_cast<std::uint64_t>(-1000));  // the guest's TSC began later
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
  record(200, "2 0 port=0x80:0xa before tsc=50");
  record(280, "2 1 after tsc=90");
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
  write(1060, 1070, 0xa);
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(200, 1050, 1060),
                                            ClockBound::at(280, 1070, ClockBound::kNoHigh)));
  // Printed by a guest that has no plugin around it: its clock is read before its TSC.
  bounds_ = GuestBounds(ClockId::kTsc);
  printed("1 0 before mono=7 tsc=50");
  printed("1 1 after mono=9 tsc=90");
  bounds_.on_tsc_offset(kThread, static_cast<std::uint64_t>(-1000));
  EXPECT_THAT(bounds_.bounds(), ElementsAre(ClockBound::at(7, ClockBound::kNoLow, 1050),
                                            ClockBound::at(9, 1050, 1090)));
}

TEST_F(GuestBoundsTest, AnOffsetThatChangesWhileTheGuestRunsSaysNothing) {
  bounds_ = GuestBounds(ClockId::kTsc);
  printed("1 0 before mono=7 tsc=50");
  printed("1 1 after mono=9 tsc=90");
  bounds_.on_tsc_offset(kThread, 5);
  bounds_.on_tsc_offset(kThread, 7);  // when it starts: the last one counts
  EXPECT_THAT(bounds_.bounds(),
              ElementsAre(ClockBound::at(7, ClockBound::kNoLow, 43), ClockBound::at(9, 43, 83)));
  bounds_.on_entry(kThread, 1);
  bounds_.on_exit(kThread, 10);
  bounds_.on_entry(kThread, 20);
  bounds_.on_tsc_offset(kThread, 8);
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
}

TEST_F(GuestBoundsTest, TwoMachinesWithTwoOffsetsSayNothingUntilOneIsTheGuests) {
  bounds_ = GuestBounds(ClockId::kTsc);
  printed("1 0 before mono=7 tsc=50");
  printed("1 1 after mono=9 tsc=90");
  bounds_.on_tsc_offset(kThread, 5);
  bounds_.on_tsc_offset(ThreadId{8}, 6);
  EXPECT_THAT(bounds_.bounds(), IsEmpty());
  bounds_.take_threads({ThreadId{8}});
  EXPECT_THAT(bounds_.bounds(),
              ElementsAre(ClockBound::at(7, ClockBound::kNoLow, 44), ClockBound::at(9, 44, 84)));
}

class GuestGapsTest : public ::testing::Test {
 protected:
  // The guest runs in [1000, 1100], [1300, 1310], [1500, 1700].
  void play(GuestRunIntervals& gaps) {
    gaps.on_exit(900);
    gaps.on_entry(1000);
    gaps.on_exit(1100);
    gaps.on_entry(1300);
    gaps.on_exit(1310);
    gaps.on_entry(1500);
    gaps.on_exit(1700);
    gaps.on_entry(9000);
    gaps.on_exit(9100);
  }
};

TEST_F(GuestGapsTest, ARecordThatCanOnlyBeInOneGapIsBoundByIt) {
  GuestRunIntervals gaps({{1, 1290, 30}});
  play(gaps);
  EXPECT_THAT(gaps.bounds(), ElementsAre(ClockBound::at(1, 1300, 1310)));
  EXPECT_EQ(gaps.counters().decided, 1u);
  EXPECT_EQ(gaps.counters().residual_ns, 10u);
}

TEST_F(GuestGapsTest, ARecordThatCouldBeInTwoGapsSaysNothing) {
  GuestRunIntervals gaps({{1, 1200, 150}});
  play(gaps);
  EXPECT_THAT(gaps.bounds(), IsEmpty());
  EXPECT_EQ(gaps.counters().records, 1u);
  EXPECT_EQ(gaps.counters().impossible, 0u);
}

TEST_F(GuestGapsTest, ARecordInTheHostsTimeShowsThatTheRelationIsWrong) {
  GuestRunIntervals gaps({{1, 1050, 5}, {2, 1200, 5}, {3, 1400, 20}});
  play(gaps);
  EXPECT_EQ(gaps.counters().impossible, 2u);
  EXPECT_EQ(gaps.counters().residual_ns, 100u);
}

TEST_F(GuestGapsTest, WhatLiesBeforeTheRecordingOrInAHoleIsNotJudged) {
  GuestRunIntervals gaps({{1, 100, 5}, {2, 1200, 5}, {3, 1600, 5}});
  gaps.on_entry(1000);
  gaps.on_exit(1100);
  gaps.on_hole();
  gaps.on_entry(1500);
  gaps.on_exit(1700);
  gaps.on_entry(1800);
  gaps.on_exit(1900);
  EXPECT_EQ(gaps.counters().impossible, 0u);
  EXPECT_THAT(gaps.bounds(), ElementsAre(ClockBound::at(3, 1500, 1700)));
}

}  // namespace
}  // namespace trapline
