#include "merge/clock/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend_ftrace/base/duration.h"
#include "merge/clock/assumption.h"
#include "merge/session/open.h"
#include "tests/plugin/qemu_run.h"

namespace trapline::clocks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Recorded in one boot, as their sessions say.
SourceClock source(std::string path, std::string clock) {
  SourceClock made;
  made.boot.id = "0b3c";
  made.path = std::move(path);
  made.clock = std::move(clock);
  return made;
}

// Stamps on a clock that is `offset` behind mono; real is one day ahead of it.
std::vector<SyncEntry> syncs(std::uint64_t offset, int count = 3) {
  std::vector<SyncEntry> entries;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t mono = 100 * kSecond + static_cast<std::uint64_t>(i) * kSecond;
    SyncEntry entry;
    entry.series = static_cast<std::uint64_t>(i);
    entry.point.stamp = mono + 500 - offset;
    const auto set = [](ClockReadings& readings, std::uint64_t at) {
      readings.values[static_cast<std::size_t>(ClockId::kMono)] = at;
      readings.values[static_cast<std::size_t>(ClockId::kReal)] = at + 86'400 * kSecond;
      readings.values[static_cast<std::size_t>(ClockId::kTsc)] = at * 2 + 77;
    };
    set(entry.point.before, mono);
    set(entry.point.after, mono + 1000);
    entry.point.adjustment = ClockAdjustment{};
    entries.push_back(entry);
  }
  return entries;
}

void expect_near(std::uint64_t a, std::uint64_t b, std::uint64_t error) {
  EXPECT_LE(a > b ? a - b : b - a, error) << a << " and " << b;
}

TEST(Alignment, TheSameClockNeedsNoShift) {
  const std::vector<SourceClock> sources{source("a", "mono"), source("b", "mono")};
  EXPECT_TRUE(same_clocks(sources));
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->clock, "mono");
  for (const AlignedSource& one : aligned->sources) {
    EXPECT_TRUE(one.map.is_identity());
    EXPECT_TRUE(one.is_same_clock());
    EXPECT_EQ(one.error_ns.value(), 0u);
  }
}

TEST(Alignment, TheTimelineKeepsTheFirstSourcesClockWhereItCan) {
  std::vector<SourceClock> sources{source("trace.dat", "local"), source("uftrace.data", "mono")};
  sources[0].syncs = syncs(40 * kSecond);
  EXPECT_FALSE(same_clocks(sources));
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->clock, "local");
  EXPECT_TRUE(aligned->sources[0].map.is_identity());
  EXPECT_EQ(aligned->sources[1].method, "sync records");
  EXPECT_LE(aligned->sources[1].error_ns.value(), 900u);
  expect_near(aligned->sources[1].map(101 * kSecond), 61 * kSecond,
              aligned->sources[1].error_ns.value());
  EXPECT_NEAR(static_cast<double>(aligned->sources[1].offset_ns), -40e9, 600);
}

TEST(Alignment, TwoPrivateClocksMeetOnMono) {
  std::vector<SourceClock> sources{source("a.dat", "local"), source("b.dat", "perf")};
  sources[0].syncs = syncs(40 * kSecond);
  sources[1].syncs = syncs(7 * kSecond);
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->clock, "mono");
  expect_near(aligned->sources[0].map(61 * kSecond), 101 * kSecond, 1000);
  expect_near(aligned->sources[1].map(94 * kSecond), 101 * kSecond, 1000);
}

TEST(Alignment, AThirdSourcesRecordsRelateClocksThatUserSpaceReads) {
  std::vector<SourceClock> sources{source("a.dat", "mono"), source("qemu.data", "real")};
  sources[0].syncs = syncs(0);
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  expect_near(aligned->sources[1].map(86'501 * kSecond), 101 * kSecond, 1100);
  EXPECT_LE(aligned->sources[1].error_ns.value(), 1400u);
}

TEST(Alignment, CyclesOfTheTscBecomeNanoseconds) {
  std::vector<SourceClock> sources{source("a.dat", "mono"), source("b.dat", "x86-tsc")};
  sources[1].cycles = true;
  sources[0].syncs = syncs(0);
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  expect_near(aligned->sources[1].map(202 * kSecond + 77), 101 * kSecond, 1100);
  // Nanoseconds that a file made of its TSC are on no other file's clock.
  sources[1].cycles = false;
  sources[1].nanoseconds_of_tsc = true;
  EXPECT_FALSE(align(sources));
}

TEST(Alignment, OneRecordGivesABoundThatGrowsAndSaysSo) {
  std::vector<SourceClock> sources{source("a.dat", "local"), source("b.dat", "mono")};
  sources[0].syncs = syncs(40 * kSecond, 1);
  sources[1].interval = Interval{100 * kSecond, 110 * kSecond};
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned);
  EXPECT_NEAR(static_cast<double>(aligned->sources[1].error_ns.value()), 10e9 * 500e-6, 2e3);
  ASSERT_EQ(aligned->sources[1].notes.size(), 1u);
  EXPECT_THAT(aligned->sources[1].notes[0], HasSubstr("500 ppm"));
}

TEST(Alignment, WhatNothingRelatesIsRefusedWithTheOptionThatSettlesIt) {
  std::vector<SourceClock> sources{source("run/a.dat", "local"), source("run/b", "real")};
  const auto refused = align(sources);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("run/a.dat"), HasSubstr("local"), HasSubstr("run/b"),
                    HasSubstr("real"), HasSubstr("--offset run/b=NS")));
  const auto option = parse_offset("b=-1500000");
  ASSERT_TRUE(option);
  ASSERT_TRUE(apply_offsets(std::vector{*option}, sources));
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->sources[1].method, "offset option");
  EXPECT_FALSE(aligned->sources[1].error_ns) << "nobody knows it";
  EXPECT_EQ(aligned->sources[1].map(2'000'000), 500'000u);
  EXPECT_TRUE(aligned->sources[0].map.is_identity());
  EXPECT_EQ(aligned->clock, "local");
}

TEST(Alignment, OffsetsAreRefusedWhereTheyNameNothingOrAreNoNumber) {
  std::vector<SourceClock> sources{source("x/b", "local"), source("y/b", "real")};
  for (const char* bad : {"b", "b=", "=5", "b=5s", "b=99999999999999999999", "b=--4"}) {
    EXPECT_FALSE(parse_offset(bad)) << bad;
  }
  EXPECT_FALSE(apply_offsets(std::vector<OffsetOption>{{"b", 1}}, sources));  // two of them
  EXPECT_FALSE(apply_offsets(std::vector<OffsetOption>{{"c", 1}}, sources));
  ASSERT_TRUE(apply_offsets(std::vector<OffsetOption>{{"2", 1}}, sources));
  EXPECT_EQ(sources[1].offset, 1);
}

TEST(Alignment, ClocksOfTwoMachinesAreNotTheSame) {
  std::vector<SourceClock> sources{source("host.dat", "mono"), source("guest.dat", "mono")};
  sources[0].machine = "host";
  sources[1].machine = "guest";
  sources[0].syncs = syncs(0);
  EXPECT_FALSE(align(sources));
}

TEST(Alignment, AWallClockThatWasSetIsRefusedWithTheTime) {
  for (const std::int64_t by : {1'000'000'000, -1'000'000'000, 2'500}) {
    std::vector<SourceClock> sources{source("a.dat", "mono"), source("qemu.log", "real")};
    sources[0].syncs = syncs(0, 6);
    for (std::size_t i = 3; i < 6; ++i) {
      for (ClockReadings* readings :
           {&sources[0].syncs[i].point.before, &sources[0].syncs[i].point.after}) {
        readings->values[static_cast<std::size_t>(ClockId::kReal)] +=
            static_cast<std::uint64_t>(by);
      }
    }
    const auto refused = align(sources);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("qemu.log"), HasSubstr("between 102.000000500 and 103.000000500"),
                      HasSubstr("its wall clock was set"), HasSubstr("--offset qemu.log=NS")));
  }
}

TEST(Alignment, AMachineThatWasSuspendedIsRefusedWithTheTime) {
  std::vector<SourceClock> sources{source("a.dat", "local"), source("b.data", "mono")};
  sources[0].syncs = syncs(40 * kSecond, 6);
  for (std::size_t i = 0; i < 6; ++i) {
    for (ClockReadings* readings :
         {&sources[0].syncs[i].point.before, &sources[0].syncs[i].point.after}) {
      readings->values[static_cast<std::size_t>(ClockId::kBoot)] =
          readings->at(ClockId::kMono) + (i < 2 ? 0 : 5 * kSecond);
    }
  }
  const auto refused = align(sources);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("between 61.000000500 and 62.000000500"),
                                             HasSubstr("the machine was suspended")));
}

// What the recorder notes of adjtimex at each series decides how much is assumed.
TEST(Alignment, TheKernelsAdjustmentsAreWhatIsAssumed) {
  std::vector<SourceClock> sources{source("a.dat", "local"), source("b.data", "mono")};
  sources[0].syncs = syncs(40 * kSecond, 6);
  sources[0].syncs[4].point.adjustment.reset();
  EXPECT_EQ(align(sources)->sources[1].rate_change_ppm, kSlewedPpm) << "not all is noted";
  sources[0].syncs[4].point.adjustment = ClockAdjustment{};
  auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->sources[1].rate_change_ppm, kSteadyPpm);
  EXPECT_LT(aligned->sources[1].error_ns, 900u);
  sources[0].syncs[3].point.adjustment->frequency = 20 << 16;
  aligned = align(sources);
  EXPECT_EQ(aligned->sources[1].rate_change_ppm, kSteadyPpm + 20);
  EXPECT_GT(aligned->sources[1].error_ns, 5'000u);
  sources[0].syncs[3].point.adjustment->tick = 10'010;  // 1,000 ppm
  const auto refused = align(sources);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("1020.0 ppm"), HasSubstr("adjtimex"),
                                             HasSubstr("between 60.000000500 and 63.000000500")));
  EXPECT_EQ(align(sources, {2000})->sources[1].rate_change_ppm, 2000) << "the user's word";
}

TEST(SyncPoints, TwoWritersAtOnceDoNotDisturbEachOther) {
  SyncGatherer gatherer;
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (const std::uint64_t series : {7u, 9u}) {
      SyncRecord record{series, i, ClockReadings{{1000u + 100 * i}}, std::nullopt};
      if (i > 0) record.after = ClockReadings{{1000u + 100 * i - 50}};
      if (i == 2) record.before.reset();
      gatherer.add(record, 5000 + 100 * i + series);
    }
  }
  const auto entries = gatherer.take();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].series, 7u);
  EXPECT_EQ(entries[1].series, 9u);
  EXPECT_LT(entries[1].point.stamp, entries[2].point.stamp);
}

TEST(SyncPoints, ManySeriesKeepTheirNarrowestBracketOnly) {
  SyncGatherer gatherer;
  std::uint64_t now = 1;
  for (std::uint64_t series = 1; series <= 2000; ++series) {
    for (std::uint32_t i = 0; i <= 16; ++i) {
      SyncRecord record{series, i, ClockReadings{{now}}, ClockReadings{{now - 1}}};
      if (i == 0) record.after.reset();
      if (i == 16) record.before.reset();
      gatherer.add(record, now += 10 + i);
    }
  }
  const auto entries = gatherer.take();
  EXPECT_LT(entries.size(), SyncGatherer::kMany + 2000u);
  EXPECT_EQ(entries.back().series, 2000u);
}

TEST(SyncPoints, AUftraceDirectorysFileIsRead) {
  test::TemporaryFolder folder;
  const std::string path = folder / "sync.txt";
  auto none = read_sync_file(path);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->records.empty());
  std::ofstream(path) << "# clock: boot\n# thread: cpu0 2130\r\n"
                         "1000 trapline: sync 1 7 0 before mono=5\n"
                         "some other line\n99999999999999999999 trapline: sync 1 7 1\n"
                         "2000 trapline: sync 1 7 1 before mono=9 after mono=8\n"
                         "3000 trapline: sync 1 7 2 after mono=12\n";
  const auto read = read_sync_file(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->clock, "boot");
  EXPECT_EQ(read->threads, (std::map<std::int32_t, ThreadId>{{0, ThreadId{2130}}}));
  const auto entries = brackets_of(*read);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].point.stamp, 2000u);
  EXPECT_EQ(entries[1].point.after.at(ClockId::kMono), 12u);
}

TEST(Alignment, RecordingsOfDifferentMachinesOrBootsOnAClockOfOneNameAreRefused) {
  struct Differs {
    void (*how)(SourceClock&);
    const char* told;
  };
  const Differs all[] = {
      {[](SourceClock& b) { b.system = "Linux host 6.2.0"; }, "Linux host 6.2.0"},
      {[](SourceClock& b) { b.cpus = 8; }, "4 and 8 CPUs"},
      {[](SourceClock& b) {
         b.interval = Interval{60 * kSecond, 70 * kSecond};
       },
       "run/a.dat ends at 50.000000000 and run/b.dat begins at 60.000000000"},
      {[](SourceClock& b) {
         b.interval = Interval{kSecond, 2 * kSecond};
       },
       "run/b.dat ends at 2."},
  };
  for (const Differs& differs : all) {
    std::vector<SourceClock> sources{source("run/a.dat", "mono"), source("run/b.dat", "mono")};
    for (SourceClock& one : sources) {
      one.system = "Linux host 6.1.0";
      one.cpus = 4;
      one.interval = Interval{40 * kSecond, 50 * kSecond};
    }
    EXPECT_TRUE(align(sources));
    sources[1].boot = {};  // two boots that are known to be one have no other interval to fear
    differs.how(sources[1]);
    const auto refused = align(sources);
    ASSERT_FALSE(refused) << differs.told;
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr(differs.told), HasSubstr("--offset run/b.dat=NS")));
    sources[1].offset = 0;
    EXPECT_TRUE(align(sources)) << "the user says so";
  }
}

TEST(Alignment, BootsThatDifferAreRefusedWhateverTheClocks) {
  for (const char* clock : {"mono", "local"}) {
    std::vector<SourceClock> sources{source("run/a.dat", "mono"), source("run/b.dat", clock)};
    sources[1].syncs = syncs(40 * kSecond);
    EXPECT_TRUE(align(sources));
    sources[1].boot.id = "77f1";
    const auto refused = align(sources);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("run/a.dat and run/b.dat"), HasSubstr("different boots"),
                      HasSubstr("0b3c"), HasSubstr("77f1"), HasSubstr("--offset run/b.dat=NS")));
    sources[1].offset = 0;
    EXPECT_TRUE(align(sources));
  }
}

TEST(Alignment, OneBootThatIsOnlyAssumedLeavesTheErrorUnknown) {
  std::vector<SourceClock> sources{source("a.dat", "mono"), source("b.dat", "mono"),
                                   source("c.dat", "local")};
  sources[2].syncs = syncs(40 * kSecond);
  for (const bool first : {true, false}) {
    for (SourceClock& one : sources) one.boot = {"0b3c", ""};
    sources[1].boot = {};
    if (first) sources[0].boot = {};
    const auto aligned = align(sources);
    ASSERT_TRUE(aligned) << aligned.error().message;
    EXPECT_EQ(aligned->sources[0].error_ns.value(), 0u) << "the timeline is its own";
    EXPECT_FALSE(aligned->sources[1].error_ns);
    EXPECT_EQ(aligned->sources[1].one_boot_error_ns, 0u);
    EXPECT_EQ(aligned->sources[2].error_ns.has_value(), !first);
    EXPECT_EQ(aligned->sources[2].one_boot_error_ns.has_value(), first);
  }
}

TEST(Alignment, PartsOfOneSessionAreOfOneBoot) {
  std::vector<SourceClock> sources{source("a.dat", "mono"), source("b.log", "mono")};
  sources[0].boot = sources[1].boot = {"", "/tmp/run"};
  sources[0].interval = Interval{kSecond, 2 * kSecond};
  sources[1].interval = Interval{3 * kSecond, 4 * kSecond};
  auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->sources[1].error_ns, 0u);
  sources[1].boot.session = "/tmp/other";
  EXPECT_FALSE(align(sources)) << "the intervals are apart";
  sources[1].interval = sources[0].interval;
  aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_FALSE(aligned->sources[1].error_ns);
}

// A log's wall clock is placed by another recording's sync records: it is that one's boot that
// counts.
TEST(Alignment, TheBootOfTheSyncRecordsCounts) {
  std::vector<SourceClock> sources{source("a.dat", "mono"), source("qemu.log", "real"),
                                   source("c.dat", "mono")};
  sources[2].syncs = syncs(0);
  EXPECT_TRUE(align(sources)->sources[1].error_ns);
  sources[2].boot = {};
  EXPECT_FALSE(align(sources)->sources[1].error_ns);
}

// A host's recording and that of a guest whose times trace-cmd moved to the host's clock.
std::vector<SourceClock> host_and_guest() {
  std::vector<SourceClock> sources{source("host.dat", "mono"), source("guest.dat", "local")};
  sources[0].machine = "host";
  sources[1].machine = "guest";
  sources[1].shifted = true;
  sources[1].applied = "time shift";
  return sources;
}

TEST(Alignment, ATimeShiftPutsAGuestOnItsHostsClock) {
  auto sources = host_and_guest();
  sources[1].clock = "mono";
  sources[1].machine = "host";
  sources[1].owner = "host.dat";
  const auto aligned = align(sources);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_EQ(aligned->sources[1].method, "time shift");
  EXPECT_FALSE(aligned->sources[1].error_ns) << "nobody knows it";
  EXPECT_TRUE(aligned->sources[1].map.is_identity());
  ASSERT_EQ(aligned->sources[1].notes.size(), 1u);
  EXPECT_THAT(aligned->sources[1].notes[0], HasSubstr("error is not known"));
}

TEST(Alignment, ATimeShiftToAnotherHostIsRefused) {
  auto sources = host_and_guest();
  sources[0].clock = "local";  // by its name the guest's own, before the shift
  sources[0].machine = "guest";
  sources[1].clock = kHostsClock;
  const auto aligned = align(sources);
  ASSERT_FALSE(aligned);
  EXPECT_THAT(aligned.error().message,
              AllOf(HasSubstr("guest.dat: its clock is its host's, that of host.dat is"),
                    HasSubstr("--offset")));
}

}  // namespace
}  // namespace trapline::clocks
