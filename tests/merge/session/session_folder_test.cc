#include "merge/session/session_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
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
  void record(const std::string& which) {
    NewSession made = begin(which);
    EXPECT_TRUE(made.earlier.make_way(made.folder));
  }
  void kill_recorder_of(const std::string& which) {
    EXPECT_TRUE(begin(which).folder.replace("raw/start.json", "{}"));
  }

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

TEST_F(SessionFolderTest, EarlierOnesStayUntilTheNewOneIsComplete) {
  record("a");
  record("b");
  EXPECT_EQ(sessions(), "run.old: a, run: b");
  NewSession third = begin("c");
  EXPECT_EQ(sessions(), "run.new: c, run.old: a, run: b");
  EXPECT_EQ(third.earlier.text(), "this recording is run.new while it lasts; then the earlier " +
                                      run() + " becomes run.old");
  ASSERT_TRUE(third.earlier.make_way(third.folder));
  EXPECT_EQ(sessions(), "run.old: b, run: c");
  EXPECT_EQ(third.folder.path(), run());
}

TEST_F(SessionFolderTest, ANewOneThatComesToNothingCostsNoEarlierOne) {
  record("a");
  record("b");
  NewSession third = begin("c");
  ASSERT_TRUE(remove_session_folder(std::move(third.folder)));
  EXPECT_EQ(sessions(), "run.old: a, run: b");
}

TEST_F(SessionFolderTest, WhatAKilledRecorderLeftIsPutInPlaceByTheNext) {
  record("a");
  record("b");
  kill_recorder_of("c");
  EXPECT_EQ(sessions(), "run.new: c, run.old: a, run: b");
  NewSession next = begin("d");
  EXPECT_EQ(sessions(), "run.new: d, run.old: b, run: c");
  ASSERT_TRUE(next.earlier.make_way(next.folder));
  EXPECT_EQ(sessions(), "run.old: c, run: d");
}

TEST_F(SessionFolderTest, AKilledRecorderThatRecordedNothingCostsNoEarlierOne) {
  record("a");
  record("b");
  (void)begin("c").folder.replace("raw/trace.dat", "half a head");
  (void)begin("d");
  EXPECT_EQ(sessions(), "run.new: d, run.old: a, run: b");
}

// The steps of make_way(): NAME.old is emptied, its session.json last, removed, taken by NAME; NAME
// is taken by NAME.new.
TEST_F(SessionFolderTest, AKillAtAnyStepOfTheMoveLosesNoSession) {
  const std::string old = run() + ".old";
  const std::vector<std::function<void()>> steps = {[&] { fs::remove(old + "/which"); },
                                                    [&] {
                                                      fs::remove_all(old);
                                                      fs::create_directory(old);
                                                    },
                                                    [&] { fs::remove_all(old); },
                                                    [&] {
                                                      fs::remove_all(old);
                                                      fs::rename(run(), old);
                                                    }};
  for (const auto& kill_after : steps) {
    record("a");
    record("b");
    kill_recorder_of("c");
    kill_after();
    const NewSession next = begin("d");
    EXPECT_EQ(sessions(), "run.new: d, run.old: b, run: c");
  }
}

TEST_F(SessionFolderTest, ARecorderThatIsKilledAtOnceDoesNotBlockTheNext) {
  fs::create_directories(run() + "/raw");
  record("a");
  fs::create_directories(run() + ".new/raw");
  record("b");
  EXPECT_EQ(sessions(), "run.old: a, run: b");
  fs::create_directory(run() + ".new");
  record("c");
  EXPECT_EQ(sessions(), "run.old: b, run: c");
  fs::create_directories(run() + ".new/raw");
  std::ofstream(run() + ".new/session.json.new") << "{";
  record("d");
  EXPECT_EQ(sessions(), "run.old: c, run: d");
}

TEST_F(SessionFolderTest, ASessionThatIsBeingWrittenIsRefused) {
  record("a");
  const NewSession second = begin("b");
  const auto refused = make_session(run());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("still writing this session"), std::string::npos);
  EXPECT_EQ(sessions(), "run.new: b, run: a");
}

// Its writer's lock goes with raw/, before make_way().
TEST_F(SessionFolderTest, ACompleteOneIsPutInPlaceByItsOwnRecorderAlone) {
  record("a");
  NewSession second = begin("b");
  fs::remove(run() + ".new/raw");
  second.lock.reset();
  EXPECT_FALSE(make_session(run()));
  EXPECT_EQ(sessions(), "run.new: b, run: a");
  ASSERT_TRUE(second.earlier.make_way(second.folder));
  EXPECT_EQ(sessions(), "run.old: a, run: b");
}

TEST_F(SessionFolderTest, AFirstOneHasNoEarlierOne) {
  NewSession first = begin("a");
  EXPECT_EQ(sessions(), "run: a");
  EXPECT_EQ(first.earlier.text(), "");
  EXPECT_TRUE(first.earlier.make_way(first.folder));
  EXPECT_EQ(sessions(), "run: a");
}

TEST_F(SessionFolderTest, WhatIsNoSessionIsLeftWhereItIs) {
  record("a");
  for (const char* name : {".old", ".new"}) {
    fs::create_directories(run() + name + "/raw/mine");
    EXPECT_FALSE(make_session(run())) << name;
    EXPECT_TRUE(fs::exists(run() + name + "/raw/mine"));
    fs::remove_all(run() + name);
  }
  EXPECT_EQ(sessions(), "run: a");
}

}  // namespace
}  // namespace trapline
