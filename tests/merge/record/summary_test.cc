#include "merge/record/summary.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

class SummaryTest : public ::testing::Test {
 protected:
  // Of a folder with a space in its name, in which there is nothing to read.
  std::vector<std::string> lines(const Session& session, std::uint64_t took_ns) {
    std::filesystem::create_directory(path_);
    const auto folder = Folder::open(path_);
    EXPECT_TRUE(folder) << folder.error().message;
    return summary(session, {*folder, 0, 0, true, took_ns});
  }

  test::TemporaryFolder above_;
  std::string path_ = above_ / "my run";
};

TEST_F(SummaryTest, AClockThatIsSetBackChangesNoDuration) {
  Session session;
  session.start_real_ns = 5'000'000'000;
  session.end_real_ns = 1'000'000'000;
  EXPECT_EQ(lines(session, 1'500'000'000).front(), "recorded 0.0 MiB in 1.5 s");
}

TEST_F(SummaryTest, TheNextCommandCanBePastedIntoAShell) {
  EXPECT_EQ(lines({}, 1).back(), "next: trapline info '" + path_ + "'");
}

TEST_F(SummaryTest, EventsThatAnotherProcessReadAreALoss) {
  Session session;
  session.instance = "trapline-1";
  EXPECT_THAT(lines(session, 1), ::testing::Contains("lost nothing"));
  session.losses = {{2, 0, 0, 0, 0, 7}};
  const std::vector<std::string> told = lines(session, 1);
  EXPECT_THAT(told, ::testing::Not(::testing::Contains("lost nothing")));
  EXPECT_THAT(told, ::testing::Contains(
                        "lost on CPU 2: 0 events overwritten, 0 dropped from a full buffer, 0 "
                        "pages not written, at least 7 events read by another process"));
  EXPECT_THAT(told, ::testing::Contains(::testing::HasSubstr("the ftrace instance trapline-1")));
}

}  // namespace
}  // namespace trapline::record
