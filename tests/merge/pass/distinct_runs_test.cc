#include "merge/pass/distinct_runs.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "merge/report/run.h"
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
