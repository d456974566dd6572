#include "merge/export/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

class CheckOutputTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name) const { std::ofstream(path(name)) << "recorded"; }
  // Why it is refused; empty where it is not.
  [[nodiscard]] std::string refused(const std::string& output, bool force,
                                    const std::vector<std::string>& inputs) const {
    const auto checked = check_output(output, force, inputs);
    return checked ? std::string() : checked.error().message;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CheckOutputTest, TheRecordingIsNeverReplaced) {
  write("a.dat");
  std::filesystem::create_symlink("a.dat", path("link.dat"));
  std::filesystem::create_hard_link(path("a.dat"), path("hard.dat"));
  for (const char* name : {"a.dat", "link.dat", "hard.dat"}) {
    for (const char* input : {"a.dat", "link.dat"}) {
      EXPECT_NE(refused(path(name), true, {path("none"), path(input)}).find("is the recording"),
                std::string::npos)
          << name << " of " << input;
    }
  }
}

TEST_F(CheckOutputTest, NorIsAFileOfASession) {
  std::filesystem::create_directories(path("run/raw"));
  std::filesystem::create_directories(path("running"));
  write("run/raw/trace.dat");
  write("running/report.html");
  const std::vector<std::string> inputs = {path("run")};
  EXPECT_NE(refused(path("run/raw/trace.dat"), true, inputs).find("is in the recording"),
            std::string::npos);
  EXPECT_EQ(refused(path("run/report.html"), false, inputs), "") << "a new file beside it";
  EXPECT_EQ(refused(path("running/report.html"), true, inputs), "") << "a name that begins alike";
}

TEST_F(CheckOutputTest, AFileIsReplacedOnlyWhereThatIsAskedFor) {
  write("report.txt");
  EXPECT_NE(refused(path("report.txt"), false, {}).find("--force"), std::string::npos);
  EXPECT_EQ(refused(path("report.txt"), true, {}), "");
  EXPECT_EQ(refused(path("new.txt"), false, {}), "");
  EXPECT_EQ(refused("-", false, {}), "");
  EXPECT_EQ(refused("/dev/null", false, {}), "");
}

// As /dev/stdout of `trapline export -o /dev/stdout > report.csv`.
TEST_F(CheckOutputTest, ADescriptorOfAFileIsWrittenWithoutForce) {
  write("report.csv");
  write("a.dat");
  const auto open = [this](const char* name) {
    return UniqueFd(::open(path(name).c_str(), O_WRONLY | O_CLOEXEC));
  };
  const UniqueFd report = open("report.csv"), recording = open("a.dat");
  const std::string number = std::to_string(report.get());
  std::filesystem::create_symlink("/proc/self/fd/" + number, path("stdout"));
  for (const std::string& output : {"/proc/self/fd/" + number, "/dev/fd/" + number, path("stdout")})
    EXPECT_EQ(refused(output, false, {path("a.dat")}), "") << output;
  std::filesystem::create_symlink("report.csv", path("link.csv"));
  EXPECT_NE(refused(path("link.csv"), false, {}).find("--force"), std::string::npos);
  const std::string read = "/proc/self/fd/" + std::to_string(recording.get());
  EXPECT_NE(refused(read, false, {path("a.dat")}).find("is the recording"), std::string::npos);
}

TEST_F(CheckOutputTest, WhatIsNotWholeHasNoNameThatAKillWouldLeave) {
  const int unnamed = ::open(path(".").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  TRAPLINE_REQUIRE(unnamed >= 0, "needs a file system with O_TMPFILE");
  ::close(unnamed);
  const auto names = [this] {
    std::set<std::string> found;
    for (const auto& one : std::filesystem::directory_iterator(path(".")))
      found.insert(one.path().filename());
    return found;
  };
  write("report.txt");
  write("report.txt." + std::to_string(::getpid()) + ".part");
  for (const bool whole : {false, true}) {
    auto file = OutputFile::create(path("report.txt"), true);
    ASSERT_TRUE(file) << file.error().message;
    file->write("new");
    EXPECT_EQ(names().size(), 2u);
    EXPECT_TRUE(!whole || file->commit());
  }
  EXPECT_EQ(names(), std::set<std::string>{"report.txt"});
  std::string text;
  std::getline(std::ifstream(path("report.txt")), text);
  EXPECT_EQ(text, "new");
}

}  // namespace
}  // namespace trapline
