// A plugin's directory and the recording of the guest's host, both made here from one true
// timeline: what align_guest() makes of them, and the source of calls on the recording's clock.
#include "merge/session/guest_alignment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "backend_ftrace/base/text_file.h"
#include "merge/session/wrapped_sources.h"
#include "merge/source/open_recording.h"
#include "plugin/format/directory.h"
#include "plugin/format/directory_writer.h"
#include "tests/support/memory_source.h"
#include "tests/support/source_clock.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

constexpr ThreadId kThread{117};
constexpr std::uint64_t kStart = 15'000'000'000'000;

// The recording's clock beside the plugin's: another zero, and 3 ppm faster.
std::uint64_t truth(std::uint64_t source) {
  return source - 14'990'000'000'000 + (source - kStart) * 3 / 1'000'000;
}

class GuestAlignmentTest : public ::testing::Test {
 protected:
  // The guest: runs some microseconds, exits some more, and so on.
  std::uint64_t later(std::uint64_t most) { return now_ += 1000 + random_() % most; }
  void event(std::uint64_t at, Payload payload) {
    Event event;
    event.at = Timestamp(truth(at));
    event.thread = kThread;
    event.payload = payload;
    events_.push_back(event);
  }
  void exit_and_entry(std::optional<std::uint32_t> value = std::nullopt) {
    event(later(10'000), KvmExit{0, 2, 0, 0, 0x1000});
    if (value)
      event(later(2'000), KvmDetail{0x80, *value, DetailKind::kPort, Access::kWrite, false});
    event(later(100'000), KvmEntry{0});
  }
  void sync_series(std::uint32_t series) {
    for (std::uint32_t i = 0; i <= 16; ++i) {
      sync_ += fmt::format("{} trapline: guest 1 {} {}", later(500), series, i);
      if (i < 16) sync_ += fmt::format(" port=0x80:{:#x} before tsc=1", series * 256 + i);
      sync_ += i > 0 ? " after tsc=1\n" : "\n";
      if (i < 16) exit_and_entry(series * 256 + i);
    }
  }
  void call(std::uint64_t function) {
    records_.emplace_back(RecordType::kEntry, later(500), 0, function);
    exit_and_entry();
    records_.emplace_back(RecordType::kExit, later(500), 0, function);
  }
  void run_guest() {
    event(now_, KvmEntry{0});
    sync_series(1);
    for (int i = 0; i < 200; ++i) call(0x1000);
    now_ += 1'000'000'000;
    exit_and_entry();
    for (int i = 0; i < 200; ++i) call(0x1040);
    sync_series(2);
    exit_and_entry();
  }
  DataDirectory written(std::int64_t shift = 0) {
    const std::string path = folder_ + "/uftrace.data";
    auto writer = DirectoryWriter::create(path, {});
    EXPECT_TRUE(writer);
    std::ofstream(path + "/sid-0.map")
        << "000000001000-000000002000 r-xp 00000000 00:00 0 /vm/guest.elf\n"
           "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n";
    std::ofstream(path + "/guest.elf.sym")
        << "# symbols: 2\n# path name: /vm/guest.elf\n0000000000000000 T first\n"
           "0000000000000040 T second\n0000000000000080 ? __sym_end\n";
    EXPECT_TRUE(writer->add_task(100, "cpu0", kStart));
    auto data = writer->open_data(100);
    EXPECT_TRUE(data);
    for (const Record& record : records_) {
      const Record moved(record.type(), record.time() + static_cast<std::uint64_t>(shift),
                         record.depth(), record.address());
      EXPECT_EQ(write_bytes(data->get(), {reinterpret_cast<const char*>(&moved), sizeof moved}), 0);
    }
    std::ofstream(path + "/sync.txt") << "# clock: mono\n" << sync_;
    auto directory = DataDirectory::open(path);
    EXPECT_TRUE(directory) << directory.error().message;
    return std::move(*directory);
  }
  Result<std::optional<GuestAlignment>> align(const DataDirectory& directory) {
    auto file = read_sync_file(directory.path() + "/sync.txt");
    auto source = open_uftrace(directory.path());
    EXPECT_TRUE(file && source);
    GuestRecording guest;
    guest.clock = std::move(file->clock);
    guest.syncs = std::move(file->guest);
    guest.times = collect(**source, {.times = true, .of_tasks = true, .of_vcpus = true}).times;
    return align(guest);
  }

  Result<std::optional<GuestAlignment>> align(const GuestRecording& guest) {
    const StampClock host{"mono", false, rate_change_};
    auto bounds = guest_bounds(guest, host);
    EXPECT_TRUE(bounds);
    test::MemorySource source(events_);
    const CollectedEvidence of_host = collect(source, {.runs = true, .guests = {&*bounds}});
    return align_guest(guest, *bounds, host, of_host, {});
  }
  std::optional<double> rate_change_;  // as --rate-change says
  std::mt19937 random_{11};
  std::uint64_t now_ = kStart;
  std::vector<Event> events_;
  std::vector<Record> records_;
  test::TemporaryFolder temporary_;
  std::string sync_, folder_ = temporary_.path();
};

TEST_F(GuestAlignmentTest, TheTrueRelationIsInsideTheErrorAndNoRecordInsideAnExit) {
  run_guest();
  rate_change_ = 1;
  const DataDirectory directory = written();
  const auto relation = align(directory);
  ASSERT_TRUE(relation && *relation);
  const GuestAlignment& found = **relation;
  EXPECT_EQ(found.syncs.exits, 32u);
  EXPECT_EQ(found.threads, (std::map<std::int32_t, ThreadId>{{0, kThread}}));
  EXPECT_EQ(found.gaps.impossible, 0u);
  EXPECT_GT(found.gaps.decided, 700u);
  EXPECT_LE(found.line.error(), 5'000u);
  for (const Record& record : records_) {
    const std::uint64_t at = found.line.map()(record.time());
    const std::uint64_t right = truth(record.time());
    EXPECT_LE(at > right ? at - right : right - at, found.line.error());
  }
}

TEST_F(GuestAlignmentTest, RecordsThatLieInsideExitsAreCountedWithTheirDistance) {
  run_guest();
  const DataDirectory directory = written(30'000);  // the calls' stamps are 30 us late
  const auto relation = align(directory);
  ASSERT_TRUE(relation && *relation);
  EXPECT_GT((*relation)->gaps.impossible, 100u);
  EXPECT_GT((*relation)->gaps.residual_ns, 1'000u);
  EXPECT_THAT((*relation)->method, ::testing::Not(::testing::HasSubstr(" 0 lie inside")));
}

TEST_F(GuestAlignmentTest, AHostThatSawNoneOfItIsNotRelated) {
  run_guest();
  const DataDirectory directory = written();
  std::erase_if(events_,
                [](const Event& e) { return std::holds_alternative<KvmDetail>(e.payload); });
  const auto relation = align(directory);
  ASSERT_TRUE(relation);
  EXPECT_FALSE(*relation);
}

TEST_F(GuestAlignmentTest, WithoutGuestSyncRecordsThereIsNothingToRelate) {
  run_guest();
  sync_ = "15000000000000 trapline: sync 1 1 0 before mono=5\nrubbish\n";
  const DataDirectory directory = written();
  const auto relation = align(directory);
  ASSERT_TRUE(relation);
  EXPECT_FALSE(*relation);
}

TEST_F(GuestAlignmentTest, CallsComeInOrderOnTheRecordingsClockWithTheirNames) {
  run_guest();
  const DataDirectory directory = written();
  const auto relation = align(directory);
  ASSERT_TRUE(relation && *relation);
  auto recorded = open_uftrace(directory.path());
  ASSERT_TRUE(recorded) << recorded.error().message;
  const auto source = with_guest_calls(std::move(*recorded), **relation);
  EXPECT_EQ(source->info().aligned.error_ns.value(), (*relation)->line.error());
  Event event;
  std::size_t calls = 0;
  Timestamp last;
  while (source->next(event) == Read::kEvent) {
    const auto* call = std::get_if<GuestCall>(&event.payload);
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(event.thread, kThread);
    EXPECT_EQ(call->name, calls < 400 ? "first" : "second");
    EXPECT_EQ(call->entry, calls % 2 == 0);
    EXPECT_GE(event.at, last);
    last = event.at;
    ++calls;
  }
  EXPECT_TRUE(source->status());
  EXPECT_EQ(calls, 800u);
}

}  // namespace
}  // namespace trapline
