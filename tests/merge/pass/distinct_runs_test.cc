#include "merge/pass/distinct_runs.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "merge/report/run.h"
#include "tests/support/memory_source.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

const std::string kRecording = std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat";

Result<ReportRun> report(std::vector<std::string> paths) {
  PassOptions what;
  what.input.paths = std::move(paths);
  return run_report(what, {}, {});
}

TEST(DistinctRunsTest, ARecordingGivenTwiceOrWithItsCopyIsRefused) {
  const TemporaryFolder folder;
  const std::string copy = folder / "copy.dat";
  std::filesystem::copy_file(kRecording, copy);
  EXPECT_TRUE(report({kRecording}));
  for (const std::string& second : {kRecording, copy}) {
    const auto run = report({kRecording, second});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(run.error().message, testing::HasSubstr("hold the same run; give each run once"));
  }
}

TEST(DistinctRunsTest, ARecordingBesideAPartOfItIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = std::string(TRAPLINE_TEST_DATA) + "/box/demo-v6.dat",
                    part = folder / "part.dat";
  std::filesystem::copy_file(whole, part);
  std::filesystem::resize_file(part, std::filesystem::file_size(part) / 100 * 85);
  EXPECT_TRUE(report({part}));
  const auto run = report({whole, part});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, whole + " and " + part + " hold the same run; give each run once");
}

// Two recordings of hosts' kernels, which hold the exits of two threads in turn.
class SharedExitsTest : public testing::Test {
 protected:
  static std::unique_ptr<MemorySource> recording(const std::string& path, std::uint64_t first,
                                                 std::uint64_t last, std::uint64_t shift = 0) {
    auto source = std::make_unique<MemorySource>();
    source->info().path = path;
    for (std::uint64_t i = first; i < last; ++i) {
      Event event;
      event.at = Timestamp(1'000 + i * 10 + shift);
      event.cpu = static_cast<std::uint32_t>(i % 2);
      event.thread = ThreadId{static_cast<std::int32_t>(101 + i % 2)};
      event.payload = KvmExit{12, kIsaVmx, 0, kNoVcpu, 0x1000 + i};
      source->add(event);
    }
    return source;
  }
  template <typename... Recordings>
  static Result<void> check(Recordings... recordings) {
    std::vector<std::unique_ptr<Source>> sources;
    (sources.push_back(std::move(recordings)), ...);
    Timeline timeline(std::move(sources));
    SharedExits shared(timeline);
    Event event;
    while (timeline.next(event) == Read::kEvent) shared.on(event);
    return shared.check();
  }
  static constexpr std::uint64_t kAll = 100, kEnough = 2 * SharedExits::kRow;
};

TEST_F(SharedExitsTest, ARecordingBesideAPartOfItOrOneThatOverlapsIsRefused) {
  constexpr std::pair<std::uint64_t, std::uint64_t> kParts[] = {
      {0, 50}, {30, 70}, {68, 100}, {68, 160}};
  for (const auto& [first, last] : kParts) {
    const auto checked = check(recording("whole.dat", 0, kAll), recording("part.dat", first, last));
    ASSERT_FALSE(checked) << first;
    EXPECT_EQ(checked.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(checked.error().message,
              "whole.dat and part.dat hold the same run; give each run once");
  }
}

TEST_F(SharedExitsTest, AThirdRecordingHidesNothing) {
  const auto checked = check(recording("a.dat", 0, kAll), recording("other.dat", 0, kAll, 3),
                             recording("b.dat", 0, kAll));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "a.dat and b.dat hold the same run; give each run once");
}

TEST_F(SharedExitsTest, RunsOneAfterTheOtherAndThoseOfTwoHostsAreDistinct) {
  EXPECT_TRUE(check(recording("a.dat", 0, 50), recording("b.dat", 50, kAll)));
  EXPECT_TRUE(check(recording("a.dat", 0, kAll), recording("b.dat", 0, kAll, 1)));
  // A few of equal times may be chance.
  EXPECT_TRUE(check(recording("a.dat", 0, kAll), recording("b.dat", 0, kEnough - 2)));
  EXPECT_FALSE(check(recording("a.dat", 0, kAll), recording("b.dat", 0, kEnough)));
}

TEST_F(SharedExitsTest, TicksOfACoarseClockProveNothing) {
  auto one = recording("a.dat", 0, kAll), other = recording("b.dat", 0, kAll);
  one->info().clock = other->info().clock = "uptime";
  EXPECT_TRUE(check(std::move(one), std::move(other)));
  one = recording("a.dat", 0, kAll), other = recording("b.dat", 0, kAll);
  one->info().resolution_ns = 1000;
  EXPECT_TRUE(check(std::move(one), std::move(other)));
}

TEST(DistinctRunsTest, RunsThatDifferInOneFigureAreDistinct) {
  const RunGiven run{"a.dat", 100, 900, 50, 7};
  for (std::uint64_t RunGiven::*figure :
       {&RunGiven::begin_ns, &RunGiven::end_ns, &RunGiven::events, &RunGiven::exits}) {
    RunGiven other = run;
    EXPECT_FALSE(check_distinct(std::vector{run, other}));
    ++(other.*figure);
    EXPECT_TRUE(check_distinct(std::vector{run, other}));
  }
}

}  // namespace
}  // namespace trapline::test
