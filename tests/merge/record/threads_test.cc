#include "merge/record/threads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

using ::testing::HasSubstr;

constexpr pid_t kFirst = 100'000;

std::string saved_cmdlines(pid_t from, std::size_t count, const char* name = "x") {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{} {}\n", from + static_cast<pid_t>(i), name);
  return text;
}

TEST(ThreadNames, AtLeastAsManyAreMissingAsFoundNoPlaceAtOnce) {
  TracedThreads threads(1), later(1);
  threads.add_names(saved_cmdlines(kFirst, TracedThreads::kMostThreads));
  EXPECT_EQ(threads.warning(), "");
  for (int again = 0; again < 2; ++again) {
    threads.add_names(saved_cmdlines(kFirst + TracedThreads::kMostThreads - 1, 8));
    EXPECT_THAT(threads.warning(), HasSubstr("the names of at least 7 threads are missing"));
  }
  later.add_missing(threads);
  EXPECT_EQ(later.warning(), threads.warning());
}

TEST(ThreadNames, OneThatIsKeptStillChangesWhenNoOtherFindsAPlace) {
  TracedThreads threads(1);
  threads.add_names(saved_cmdlines(kFirst, TracedThreads::kMostThreads + 1));
  threads.add_names(saved_cmdlines(kFirst + 5, 1, "renamed"));
  EXPECT_THAT(threads.cmdlines(), HasSubstr(fmt::format("{} renamed\n", kFirst + 5)));
  EXPECT_THAT(threads.warning(), HasSubstr("at least 1 thread"));
}

TEST(RunCountsTest, ASchedstatIsTheTimeOnACpuThatInQueuesAndTheTurns) {
  const auto count = RunCounts::parse("68700000 1200 755\n");
  ASSERT_TRUE(count);
  EXPECT_EQ(count->ns, 68'700'000u);
  EXPECT_EQ(count->turns, 755u);
  for (const char* damaged : {"", "1 2", "1 2 3 4", "a b c"})
    EXPECT_FALSE(RunCounts::parse(damaged));
}

// This thread, and one that no process has.
class RunCountsOfThreads : public ::testing::Test {
 protected:
  void burn() {
    const auto own = [this] { return RunCounts::parse(read_text(path_).value_or("")); };
    for (const std::uint64_t until = own()->ns + 2'000'000; own()->ns < until;) continue;
  }
  std::vector<SessionThread> added(bool knows_all) {
    std::vector<SessionThread> threads = {{::getpid(), ::getpid(), "self"},
                                          {kFirst, kFirst, "gone"}};
    counts_.add_to(threads, knows_all);
    return threads;
  }
  const std::map<pid_t, Thread> threads_ = {{::getpid(), {::getpid(), "self"}}};
  const std::string path_ = fmt::format("/proc/{0}/task/{0}/schedstat", ::getpid());
  RunCounts counts_;
};

TEST_F(RunCountsOfThreads, AThreadThatIsThereAtBothTimesHasBothCounts) {
  if (!read_text(path_)) GTEST_SKIP() << "the kernel has no schedstat";
  counts_.begin(threads_);
  burn();
  counts_.end(threads_);
  const std::vector<SessionThread> threads = added(false);
  ASSERT_TRUE(threads[0].ran_ns && threads[0].turns);
  EXPECT_GE((*threads[0].ran_ns)[1], (*threads[0].ran_ns)[0] + 2'000'000);
  EXPECT_GT((*threads[0].ran_ns)[0], 0u);
  EXPECT_EQ(threads[1].ran_ns, std::nullopt);
}

TEST_F(RunCountsOfThreads, ANewThreadCountsFromZeroOnlyIfAllThreadsWereKnownBefore) {
  if (!read_text(path_)) GTEST_SKIP() << "the kernel has no schedstat";
  counts_.begin({});
  counts_.end(threads_);
  EXPECT_EQ(added(false)[0].ran_ns, std::nullopt);
  const auto ran = added(true)[0].ran_ns;
  ASSERT_TRUE(ran);
  EXPECT_EQ((*ran)[0], 0u);
  EXPECT_GT((*ran)[1], 0u);
}

}  // namespace
}  // namespace trapline::record
