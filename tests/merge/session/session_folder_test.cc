#include "merge/session/session_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "backend_ftrace/base/text_file.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

class SessionFolderTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string run() const { return folder_.path() + "/run"; }

  // A session that tells which it is.
  NewSession begin(const std::string& which) {
    auto made = make_session(run());
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->folder.replace("session.json", "{}"));
    EXPECT_TRUE(made->folder.replace("which", which));
    return std::move(*made);
  }
  void record(const std::string& which) { EXPECT_TRUE(begin(which).earlier.remove_older()); }

  // "run.old: a, run: b", in this order.
  [[nodiscard]] std::string sessions() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string which = read_text(entry.path() / "which").value_or("-");
      found.push_back(entry.path().filename().string() + ": " + which);
    }
    std::sort(found.begin(), found.end());
    std::string text;
    for (const std::string& one : found) text += (text.empty() ? "" : ", ") + one;
    return text;
  }

  test::TemporaryFolder folder_;
};

TEST_F(SessionFolderTest, TheEarlierOneIsKeptAndTheOneBeforeGoesAtTheEnd) {
  record("a");
  record("b");
  EXPECT_EQ(sessions(), "run.old: a, run: b");
  NewSession third = begin("c");
  EXPECT_NE(sessions().find(": a"), std::string::npos) << "it went before the end";
  EXPECT_EQ(third.earlier.text(),
            "the earlier " + run() + " is now run.old; the one before it is removed at the end");
  ASSERT_TRUE(third.earlier.remove_older());
  EXPECT_EQ(sessions(), "run.old: b, run: c");
}

TEST_F(SessionFolderTest, ANewOneThatComesToNothingCostsNoEarlierOne) {
  record("a");
  record("b");
  NewSession third = begin("c");
  ASSERT_TRUE(remove_session_folder(std::move(third.folder)));
  ASSERT_TRUE(third.earlier.put_back());
  EXPECT_EQ(sessions(), "run.old: a, run: b");
  EXPECT_EQ(third.earlier.text(), "") << "it is told as moved";
}

TEST_F(SessionFolderTest, WhatAKilledRecorderWasToRemoveGoesAtTheEndOfTheNext) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const std::string left = fmt::format("run.old.{}", dead);
  const auto killed = [&](const std::string& which, const char* closed) {
    const NewSession session = begin(which);
    fs::rename(fmt::format("{}.old.{}", run(), ::getpid()), folder_.path() + "/" + left);
    EXPECT_TRUE(session.folder.replace(
        "session.json",
        fmt::format(R"({{"closed": {}, "recorder": {{"pid": {}}}}})", closed, dead)));
  };
  record("a");
  record("b");
  killed("c", "false");
  NewSession next = begin("d");
  EXPECT_NE(sessions().find(left + ": a"), std::string::npos) << "it went before the end";
  EXPECT_NE(next.earlier.text().find(left + ", which a killed recorder left"), std::string::npos);
  ASSERT_TRUE(next.earlier.remove_older());
  EXPECT_EQ(sessions(), "run.old: c, run: d");
  // Under the name of a recorder that came to its end it is somebody else's.
  next.lock.reset();
  killed("e", "true");
  NewSession last = begin("f");
  EXPECT_EQ(last.earlier.text().find(left), std::string::npos);
}

// In a container every recorder may be process 1.
TEST_F(SessionFolderTest, AKilledRecorderOfTheSameNumberDoesNotBlockTheNext) {
  const std::string unfinished =
      fmt::format(R"({{"closed": false, "recorder": {{"pid": {}}}}})", ::getpid());
  record("a");
  record("b");
  for (const char* which : {"c", "d"}) {
    const auto killed = make_session(run());
    ASSERT_TRUE(killed) << killed.error().message;
    EXPECT_TRUE(killed->folder.replace("session.json", unfinished));
    EXPECT_TRUE(killed->folder.replace("which", which));
  }
  const std::string left = fmt::format("run.old.{}", ::getpid());
  EXPECT_EQ(sessions(), left + ".2: b, " + left + ": a, run.old: c, run: d");
  NewSession next = begin("e");
  ASSERT_TRUE(next.earlier.remove_older());
  EXPECT_EQ(sessions(), "run.old: d, run: e");
}

TEST_F(SessionFolderTest, WhatRecordersLeaveThatAreKilledOneAfterAnotherGoesAsAWhole) {
  record("0");
  record("1");
  for (const int pid : {11, 12, 13, 14}) {
    const NewSession killed = begin(std::to_string(pid));
    fs::rename(fmt::format("{}.old.{}", run(), ::getpid()), fmt::format("{}.old.{}", run(), pid));
    EXPECT_TRUE(killed.folder.replace(
        "session.json", fmt::format(R"({{"closed": false, "recorder": {{"pid": {}}}}})", pid)));
  }
  EXPECT_EQ(sessions(),
            "run.old.11: 0, run.old.12: 1, run.old.13: 11, run.old.14: 12, run.old: 13, run: 14");
  NewSession next = begin("15");
  ASSERT_TRUE(next.earlier.remove_older());
  EXPECT_EQ(sessions(), "run.old: 14, run: 15");
}

TEST_F(SessionFolderTest, ANameThatIsTooLongForAnEarlierOneIsRefusedAtOnce) {
  EXPECT_TRUE(make_session(folder_ / std::string(240, 'x')));
  const auto refused = make_session(folder_ / std::string(241, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().message.find("its name has 241 bytes, of at most 240"),
            std::string::npos);
}

TEST_F(SessionFolderTest, AFirstOneHasNoEarlierOne) {
  NewSession first = begin("a");
  EXPECT_EQ(first.earlier.text(), "");
  EXPECT_TRUE(first.earlier.remove_older());
  EXPECT_TRUE(first.earlier.put_back());
  EXPECT_EQ(sessions(), "run: a");
}

TEST_F(SessionFolderTest, WhatIsNoSessionIsLeftWhereItIs) {
  record("a");
  fs::create_directory(run() + ".old");
  fs::create_directory(run() + ".old/mine");
  EXPECT_FALSE(make_session(run()));
  EXPECT_EQ(sessions(), "run.old: -, run: a");
}

}  // namespace
}  // namespace trapline
