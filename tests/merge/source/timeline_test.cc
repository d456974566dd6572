#include "merge/source/timeline.h"

#include <gmock/gmock.h>

#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

using ::testing::ElementsAre;
using Merged = std::vector<std::pair<std::uint64_t, int>>;  // time, source

std::unique_ptr<MemorySource> at_times(std::initializer_list<std::uint64_t> times) {
  auto source = std::make_unique<MemorySource>();
  for (const std::uint64_t time : times) source->add(entry(time));
  return source;
}

Timeline timeline_of(std::vector<std::unique_ptr<MemorySource>> sources) {
  std::vector<std::unique_ptr<Source>> all;
  for (auto& source : sources) all.push_back(std::move(source));
  return Timeline(std::move(all));
}

// What comes until the timeline has nothing more, or nothing yet; `last` says which.
Merged read(Timeline& timeline, Read& last) {
  Merged events;
  Event event;
  while ((last = timeline.next(event)) == Read::kEvent) {
    events.emplace_back(event.at.ns(), event.source);
  }
  return events;
}

TEST(TimelineTest, MergesByTimeAndTiesGoToTheSourceAddedFirst) {
  std::vector<std::unique_ptr<MemorySource>> sources;
  sources.push_back(at_times({1, 5, 5, 9}));
  sources.push_back(at_times({}));
  sources.push_back(at_times({0, 5, 7}));
  Timeline timeline = timeline_of(std::move(sources));
  Read last{};
  EXPECT_THAT(read(timeline, last),
              ElementsAre(std::pair{0, 2}, std::pair{1, 0}, std::pair{5, 0}, std::pair{5, 0},
                          std::pair{5, 2}, std::pair{7, 2}, std::pair{9, 0}));
  EXPECT_EQ(last, Read::kEnd);
  EXPECT_TRUE(timeline.status());
}

TEST(TimelineTest, AFailedSourceIsTheTimelinesError) {
  std::vector<std::unique_ptr<MemorySource>> sources;
  sources.push_back(at_times({1, 2}));
  sources.push_back(at_times({1}));
  sources.back()->fail_at_end({"memory: cut off", ErrorKind::kDamaged});
  Timeline timeline = timeline_of(std::move(sources));
  Read last{};
  EXPECT_EQ(read(timeline, last).size(), 3u);
  EXPECT_EQ(last, Read::kEnd);
  ASSERT_FALSE(timeline.status());
  EXPECT_EQ(timeline.status().error().message, "memory: cut off");
}

TEST(TimelineTest, NothingIsGivenOutPastASourceThatHasNothingYet) {
  std::vector<std::unique_ptr<MemorySource>> sources;
  sources.push_back(at_times({10, 20, 30}));
  sources.push_back(at_times({12}));
  MemorySource& live = *sources.back();
  live.add_nothing_yet();
  live.add_nothing_yet();
  live.add(entry(25));
  Timeline timeline = timeline_of(std::move(sources));
  Read last{};
  EXPECT_THAT(read(timeline, last), ElementsAre(std::pair{10, 0}, std::pair{12, 1}));
  EXPECT_EQ(last, Read::kPending);
  EXPECT_THAT(read(timeline, last), ElementsAre());
  EXPECT_EQ(last, Read::kPending);
  // What it then has may lie before what others have had for long.
  EXPECT_THAT(read(timeline, last),
              ElementsAre(std::pair{20, 0}, std::pair{25, 1}, std::pair{30, 0}));
  EXPECT_EQ(last, Read::kEnd);
}

TEST(TimelineTest, ASourceMayHaveNothingYetFromTheBeginning) {
  std::vector<std::unique_ptr<MemorySource>> sources;
  sources.push_back(std::make_unique<MemorySource>());
  MemorySource& live = *sources.back();
  live.add_nothing_yet();
  sources.push_back(at_times({5}));
  Timeline timeline = timeline_of(std::move(sources));
  Read last{};
  EXPECT_THAT(read(timeline, last), ElementsAre());
  EXPECT_EQ(last, Read::kPending);
  live.add(entry(3));
  EXPECT_THAT(read(timeline, last), ElementsAre(std::pair{3, 0}, std::pair{5, 1}));
  EXPECT_EQ(last, Read::kEnd);
}

TEST(TimelineTest, OneSourceAloneSaysItselfThatItHasNothingYet) {
  std::vector<std::unique_ptr<MemorySource>> sources;
  sources.push_back(at_times({1}));
  sources.back()->add_nothing_yet();
  sources.back()->add(entry(2));
  Timeline timeline = timeline_of(std::move(sources));
  Read last{};
  EXPECT_EQ(read(timeline, last).size(), 1u);
  EXPECT_EQ(last, Read::kPending);
  EXPECT_EQ(read(timeline, last).size(), 1u);
  EXPECT_EQ(last, Read::kEnd);
}

}  // namespace
}  // namespace trapline::test
