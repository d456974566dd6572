#include "merge/source/open_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "backend_ftrace/simpletrace/format.h"
#include "merge/session/input.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

class SimpletraceSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_ + ".events") << "disk_read(uint64_t sector, const char *who) \"sector=%\" "
                                        "PRIu64 \" who=%s\"\n";
    put(simpletrace::kHeaderId), put(simpletrace::kHeaderMagic), put(simpletrace::kVersion);
    put(simpletrace::kRecordMapping), put(std::uint64_t{3}), put(std::uint32_t{9});
    bytes_ += "disk_read";
  }
  template <typename T>
  void put(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof raw);
  }
  void read_event(std::uint64_t time, std::uint64_t sector, const std::string& who) {
    put(simpletrace::kRecordEvent), put(std::uint64_t{3}), put(time);
    put(static_cast<std::uint32_t>(24 + 8 + 4 + who.size())), put(std::uint32_t{77});
    put(sector), put(static_cast<std::uint32_t>(who.size()));
    bytes_ += who;
  }
  void dropped(std::uint64_t time, std::uint64_t count) {
    put(simpletrace::kRecordEvent), put(simpletrace::kDroppedId), put(time);
    put(std::uint32_t{32}), put(std::uint32_t{77}), put(count);
  }
  std::unique_ptr<Source> open() {
    std::ofstream(path_, std::ios::binary) << bytes_;
    auto source = open_simpletrace(path_, path_ + ".events");
    EXPECT_TRUE(source) << source.error().message;
    return source ? std::move(*source) : nullptr;
  }
  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "trace";
  std::string bytes_;
};

TEST_F(SimpletraceSourceTest, EventsAreMarkersInOrderOfTimeAndDropsAreLosses) {
  read_event(100, 1, "a");
  read_event(300, 3, "c c");
  read_event(200, 2, "b\x1b");
  dropped(400, 5);
  const auto source = open();
  ASSERT_TRUE(source);
  EXPECT_EQ(source->info().clock, "mono");
  EXPECT_EQ(source->range(), std::pair(Timestamp(100), Timestamp(300)));
  Event event;
  std::vector<std::string> seen;
  while (source->next(event) == Read::kEvent) {
    if (const auto* marker = std::get_if<Marker>(&event.payload)) {
      seen.push_back(std::to_string(event.at.ns()) + " " + std::string(marker->text));
      EXPECT_EQ(event.thread, ThreadId{77});
      EXPECT_EQ(source->event_name(event), "disk_read");
    } else {
      const Lost& lost = std::get<Lost>(event.payload);
      EXPECT_EQ(lost.count, 5u);
      EXPECT_EQ(lost.from.ns(), 300u);
      EXPECT_EQ(lost.to.ns(), 400u);
    }
  }
  EXPECT_TRUE(source->status());
  EXPECT_THAT(seen, ::testing::ElementsAre("100 disk_read sector=1 who=a",
                                           "200 disk_read sector=2 who=b\x1b",
                                           "300 disk_read sector=3 who=c c"));
  EXPECT_EQ(source->counters().events, 3u);
  EXPECT_EQ(source->counters().lost_events, 5u);
}

TEST_F(SimpletraceSourceTest, ACutFileGivesItsEventsAndThenSaysSo) {
  read_event(100, 1, "a");
  read_event(200, 2, "b");
  bytes_.pop_back();
  const auto source = open();
  ASSERT_TRUE(source);
  Event event;
  EXPECT_EQ(source->next(event), Read::kEvent);
  EXPECT_EQ(source->next(event), Read::kEnd);
  ASSERT_FALSE(source->status());
  EXPECT_EQ(source->status().error().kind, ErrorKind::kDamaged);
}

// A declaration is written once and printed with each record.
TEST_F(SimpletraceSourceTest, AnEventsTextIsCutWhereAKernelEventsIs) {
  std::ofstream(path_ + ".events") << "disk_read(uint64_t sector, const char *who) \"sector=%\" "
                                      "PRIu64 \""
                                   << std::string(100'000, 'x') << " who=%s\"\n";
  read_event(100, 1, "a");
  const auto source = open();
  ASSERT_TRUE(source);
  Event event;
  ASSERT_EQ(source->next(event), Read::kEvent);
  const std::string_view text = std::get<Marker>(event.payload).text;
  EXPECT_EQ(text.size(), 16u * 1024);
  EXPECT_THAT(text, ::testing::StartsWith("disk_read sector=1xxx"));
  EXPECT_THAT(text, ::testing::EndsWith("xxx [cut off]"));
}

TEST_F(SimpletraceSourceTest, LossesThatHaveNoSumAreTheLargestNumber) {
  dropped(100, UINT64_MAX);
  dropped(200, 2);
  const auto source = open();
  ASSERT_TRUE(source);
  for (Event event; source->next(event) == Read::kEvent;) continue;
  EXPECT_EQ(source->counters().lost_events, UINT64_MAX);
}

// Both are on CLOCK_MONOTONIC, which begins anew with each boot.
TEST_F(SimpletraceSourceTest, OneOfAnotherBootIsNoPartOfTheTimeline) {
  read_event(100, 1, "a");
  ASSERT_TRUE(open());
  InputOptions options;
  options.paths = {std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat", path_};
  options.trace_events = path_ + ".events";
  const auto input = open_input(options);
  ASSERT_FALSE(input);
  EXPECT_THAT(input.error().message,
              ::testing::AllOf(::testing::HasSubstr("both are on a clock mono"),
                               ::testing::HasSubstr("--offset")));
}

}  // namespace
}  // namespace trapline
