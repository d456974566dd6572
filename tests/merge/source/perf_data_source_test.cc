#include "merge/source/open_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "merge/source/perf_data/sample.h"
#include "tests/merge/source/perf_data_file.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline::perf_data {
namespace {

using test::bytes_of;
using test::PerfDataFile;
using test::words;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class PerfDataTest : public ::testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& bytes) {
    temporary_.write(bytes);
    auto source = open_perf_data(temporary_.path());
    EXPECT_TRUE(source) << source.error().message;
    return source ? std::move(*source) : nullptr;
  }
  Error error_of(const std::string& bytes) {
    temporary_.write(bytes);
    auto source = open_perf_data(temporary_.path());
    EXPECT_FALSE(source);
    return source ? Error{} : source.error();
  }
  // The times of all kvm_entry events; what else comes goes to losses_ and threads_.
  std::vector<std::uint64_t> times(Source& source) {
    std::vector<std::uint64_t> times;
    std::uint64_t before = 0;
    for (Event event; source.next(event) == Read::kEvent;) {
      EXPECT_GE(event.at.ns(), before);
      before = event.at.ns();
      if (std::holds_alternative<KvmEntry>(event.payload)) times.push_back(event.at.ns());
      if (const auto* lost = std::get_if<Lost>(&event.payload)) losses_.push_back(*lost);
      if (const auto* made = std::get_if<NewThread>(&event.payload)) threads_.push_back(*made);
    }
    return times;
  }

  test::TemporaryFile temporary_{""};
  PerfDataFile file_;
  std::vector<Lost> losses_;
  std::vector<NewThread> threads_;
};

TEST_F(PerfDataTest, EventsOfSeveralCpusComeInOrderOfTime) {
  file_.entry(100, 0).entry(300, 0).entry(150, 1).round();
  file_.entry(320, 0).entry(250, 1).entry(350, 1).round();
  for (const std::string& bytes : {file_.file(), file_.pipe()}) {
    const auto source = open(bytes);
    EXPECT_THAT(times(*source), ElementsAre(100, 150, 250, 300, 320, 350));
    EXPECT_TRUE(source->status());
    EXPECT_EQ(source->counters().events, 6u);
    EXPECT_EQ(source->info().clock, "perf");
  }
}

TEST_F(PerfDataTest, AnEventHasTheFieldsOfItsFormat) {
  const auto source = open(file_.entry(100, 2, 7).file());
  Event event;
  ASSERT_EQ(source->next(event), Read::kEvent);
  EXPECT_EQ(event.cpu, 2u);
  EXPECT_EQ(event.thread, ThreadId{102});
  EXPECT_EQ(std::get<KvmEntry>(event.payload).vcpu, 7);
  EXPECT_EQ(source->event_name(event), "kvm:kvm_entry");
}

TEST_F(PerfDataTest, AnEventThatComesLaterThanItsRoundAllowsIsDamaged) {
  file_.entry(100, 0).round().entry(200, 0).round().entry(300, 0).round().entry(50, 0);
  const auto source = open(file_.file());
  EXPECT_THAT(times(*source), ElementsAre(100, 200, 300));
  EXPECT_EQ(source->counters().damaged_events, 1u);
}

TEST_F(PerfDataTest, ALossLiesBetweenTheEventsOfItsCpu) {
  file_.entry(100, 0).entry(120, 1).lost(190, 0, 3).entry(180, 0).round();
  const auto source = open(file_.file());
  EXPECT_THAT(times(*source), ElementsAre(100, 120, 180));
  ASSERT_EQ(losses_.size(), 1u);
  EXPECT_EQ(losses_[0].from, Timestamp(100));
  EXPECT_EQ(losses_[0].to, Timestamp(180));
  EXPECT_EQ(losses_[0].count, 3u);
  EXPECT_EQ(source->counters().lost_events, 3u);
}

// Wherever the damage begins, and whatever it is, all CPUs may have had events in it.
TEST_F(PerfDataTest, BytesThatAreNoRecordsAreALossOfEachCpu) {
  constexpr std::size_t kRecord = 64, kEvents = 40, kFirst = 15, kDamaged = 3;
  std::vector<std::uint64_t> all, whole;
  for (std::size_t i = 0; i < kEvents; ++i) {
    all.push_back(100 + 10 * i);
    if (i < kFirst || i >= kFirst + kDamaged) whole.push_back(all.back());
    file_.entry(all.back(), i % 2);
  }
  ASSERT_EQ(file_.records.size(), kRecord * kEvents);
  const std::string sound = file_.records;
  for (const char fill : {'\0', '\xff', '\x09', 'x'}) {
    SCOPED_TRACE(int{fill});
    file_.records.replace(kFirst * kRecord, kDamaged * kRecord, kDamaged * kRecord, fill);
    losses_.clear();
    const auto source = open(file_.file());
    EXPECT_EQ(times(*source), whole);
    ASSERT_EQ(losses_.size(), 2u);
    EXPECT_EQ(losses_[0].from, Timestamp(all[13]));
    EXPECT_EQ(losses_[0].to, Timestamp(all[19]));
    EXPECT_EQ(losses_[1].from, Timestamp(all[14]));
    EXPECT_EQ(losses_[1].to, Timestamp(all[18]));
    EXPECT_EQ(source->counters().gaps_uncounted, 2u);
    ASSERT_FALSE(source->status());
    EXPECT_EQ(source->status().error().kind, ErrorKind::kDamaged);
    file_.records = sound;
  }
  // The end of the records is as good as eight of them; damage up to there ends the reading.
  file_.records.replace((kEvents - 3) * kRecord, kRecord, kRecord, '\0');
  EXPECT_EQ(times(*open(file_.file())).size(), kEvents - 1);
  file_.records.replace((kEvents - 3) * kRecord, 3 * kRecord, 3 * kRecord, '\0');
  losses_.clear();
  const auto source = open(file_.file());
  EXPECT_EQ(times(*source).size(), kEvents - 3);
  EXPECT_FALSE(source->status());
}

TEST_F(PerfDataTest, WhatWasLostAfterTheLastEventIsTold) {
  file_.entry(100, 0).lost(110, 0, 3).entry(120, 0).entry(400, 1).lost_samples(0, 5);
  const auto source = open(file_.file());
  (void)times(*source);
  ASSERT_EQ(losses_.size(), 2u);
  EXPECT_EQ(losses_[1].from, Timestamp(400));
  EXPECT_EQ(losses_[1].to, Timestamp(400));
  EXPECT_EQ(losses_[1].count, 2u);  // the LOST record has told of three
}

TEST_F(PerfDataTest, AThrottledTimeIsALossWithoutACount) {
  file_.entry(100, 0).throttle(true, 110, 0).throttle(false, 150, 0).entry(160, 0);
  const auto source = open(file_.file());
  (void)times(*source);
  ASSERT_EQ(losses_.size(), 1u);
  EXPECT_EQ(losses_[0].from, Timestamp(110));
  EXPECT_EQ(losses_[0].to, Timestamp(150));
  EXPECT_EQ(source->counters().gaps_uncounted, 1u);
}

TEST_F(PerfDataTest, ThreadsComeFromForkRecords) {
  file_.fork(0, 10, 11).entry(100, 0).fork(200, 10, 12);
  const auto source = open(file_.file());
  (void)times(*source);
  ASSERT_EQ(threads_.size(), 1u);  // the other one was there before
  EXPECT_EQ(threads_[0].child, ThreadId{12});
  EXPECT_TRUE(threads_[0].same_process);
  EXPECT_EQ(source->counters().events, 1u);
  EXPECT_EQ(source->describe().processes.of(ThreadId{11}, ThreadId{0}), ThreadId{10});
}

TEST_F(PerfDataTest, APipeThatWasCutIsReadToWhereItIsWhole) {
  file_.entry(100, 0).entry(200, 0);
  std::string bytes = file_.pipe();
  bytes.resize(bytes.size() - 5);
  const auto source = open(bytes);
  EXPECT_THAT(times(*source), ElementsAre(100));
  ASSERT_FALSE(source->status());
  EXPECT_EQ(source->status().error().kind, ErrorKind::kDamaged);
  EXPECT_THAT(source->status().error().message, HasSubstr("cut off at offset"));
}

TEST_F(PerfDataTest, FilesThatCannotBeReadSayWhy) {
  file_.entry(100, 0);
  const std::string whole = file_.file();
  EXPECT_THAT(error_of(whole.substr(0, whole.size() - 100)).message, HasSubstr("cut off"));
  EXPECT_EQ(error_of(whole.substr(0, 260)).kind, ErrorKind::kDamaged);
  EXPECT_EQ(error_of(whole.substr(0, 60)).kind, ErrorKind::kDamaged);
  EXPECT_THAT(error_of("2ELIFREP" + whole.substr(8)).message, HasSubstr("big-endian"));
  EXPECT_THAT(error_of("PERFFILE" + whole.substr(8)).message, HasSubstr("2.6.39"));
  EXPECT_THAT(error_of(PerfDataFile().round().file()).message, HasSubstr("holds no events"));
  PerfDataFile sampled = file_;
  sampled.period = 100;
  EXPECT_THAT(error_of(sampled.file()).message, HasSubstr("-c 1"));
  PerfDataFile without = file_;
  without.sample_type &= ~std::uint64_t{1u << 7};
  EXPECT_THAT(error_of(without.file()).message, HasSubstr("--sample-cpu"));
}

TEST_F(PerfDataTest, TheClockIsTheOneThatWasChosen) {
  file_.entry(100, 0);
  file_.flags |= 1u << 25;
  for (const auto& [number, name] : std::vector<std::pair<int, std::string>>{
           {0, "real"}, {1, "mono"}, {4, "mono_raw"}, {7, "boot"}, {11, "tai"}}) {
    file_.clock = number;
    EXPECT_EQ(open(file_.file())->info().clock, name);
  }
  file_.clock = 3;
  EXPECT_THAT(error_of(file_.file()).message, HasSubstr("clock with the number 3"));
}

TEST_F(PerfDataTest, WallClockIsToldAndAlignsNothing) {
  file_.clock = 1;
  file_.flags |= 1u << 25;
  file_.clock_data =
      bytes_of(1u) + bytes_of(1u) + words(1'795'597'551'473'092'000, 16'971'416'374'310);
  file_.entry(100, 0);
  for (const std::string& bytes : {file_.file(), file_.pipe()}) {
    const auto source = open(bytes);
    EXPECT_THAT(source->facts(),
                Contains(Pair("wall clock", "mono + 1795580580056717690 ns, or more")));
    EXPECT_THAT(times(*source), ElementsAre(100));
  }
  file_.clock_data[0] = 2;  // a version that is not known
  EXPECT_THAT(open(file_.file())->facts(), Not(Contains(Pair("wall clock", ::testing::_))));
}

TEST_F(PerfDataTest, AlignedCompressedRecordsAreReadWithoutTheirPadding) {
  file_.entry(100, 0).entry(110, 0).entry(120, 0).round().entry(130, 0).compress2(50);
  for (const std::string& bytes : {file_.file(), file_.pipe()}) {
    const auto source = open(bytes);
    EXPECT_THAT(times(*source), ElementsAre(100, 110, 120, 130));
    EXPECT_TRUE(source->status());
  }
}

TEST_F(PerfDataTest, CompressedRecordWhoseSizePerfCouldNotWriteIsNamed) {
  file_.entry(100, 0).round();
  const std::string before = file_.records;
  for (const auto& [size, data] : {std::pair{0u, 65'519u}, {2'728u, 68'246u}}) {
    file_.records = before + bytes_of(83u) + bytes_of(std::uint16_t{0}) +
                    bytes_of(static_cast<std::uint16_t>(size)) + words(data) +
                    std::string(data, 'x');
    const auto source = open(file_.file());
    EXPECT_THAT(times(*source), ElementsAre(100));
    ASSERT_FALSE(source->status());
    EXPECT_THAT(source->status().error().message,
                HasSubstr("COMPRESSED2 record of 64 KiB or more"));
  }
}

TEST_F(PerfDataTest, WhatStandsBeforeTheRawDataIsPassedOver) {
  constexpr std::uint64_t kAll = kIdentifier | kIp | kTid | kTime | kAddr | kId | kStreamId | kCpu |
                                 kPeriod | kRead | kCallchain | kRaw;
  constexpr std::uint64_t kGroupOfIds = 8 | 4;
  std::string record =
      PerfDataFile::record(9, words(1, 2, 3, 400, 5, 6, 7, 8, 9) + words(2, 10, 11, 12, 13) +
                                  words(3, 1, 2, 3) + bytes_of(std::uint32_t{4}) + "abcd");
  const RecordShape shape(kAll, kGroupOfIds);
  const auto bytes = std::as_writable_bytes(std::span(record));
  Sample sample;
  ASSERT_TRUE(shape.sample(bytes, sample));
  EXPECT_EQ(sample.time, 400u);
  EXPECT_EQ(sample.cpu, 8u);
  ASSERT_EQ(sample.raw.size(), 4u);
  EXPECT_EQ(sample.raw[0], std::byte{'a'});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(shape.sample(bytes.first(size), sample)) << size;
}

// perf leaves IDENTIFIER out where all events have the same fields.
TEST_F(PerfDataTest, AnIdStandsAfterTheAddressOfASampleAndBeforeTheCpuOfOthers) {
  const RecordShape shape(kIp | kTid | kTime | kAddr | kId | kCpu, 0);
  const std::string sample = PerfDataFile::record(9, words(1, 2, 3, 4, 77, 5));
  EXPECT_EQ(shape.id(std::as_bytes(std::span(sample)), true), 77u);
  const std::string other = PerfDataFile::record(2, words(9, 9) + words(2, 3, 77, 5));
  EXPECT_EQ(shape.id(std::as_bytes(std::span(other)), false), 77u);
  EXPECT_EQ(shape.id(std::as_bytes(std::span(sample)).first(44), true), std::nullopt);
  EXPECT_EQ(RecordShape(kIp | kTime, 0).id(std::as_bytes(std::span(sample)), true), std::nullopt);
}

TEST_F(PerfDataTest, AFileWithoutTracepointsIsRefused) {
  file_.type = 1;  // cpu-clock
  file_.config = 0;
  EXPECT_THAT(error_of(file_.entry(100, 0).file()).message, HasSubstr("holds no tracepoints"));
}

}  // namespace
}  // namespace trapline::perf_data
