#include "backend_ftrace/base/text_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "backend_ftrace/base/json_text.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "backend_ftrace/base/unique_fd.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

using testing::HasSubstr;

TEST(TextFileTest, ReadsFilesThatDoNotTellTheirSize) {
  const auto text = read_text("/proc/self/status");
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("Threads:"));
}

TEST(TextFileTest, NeverWaitsForAFifoNorReadsADevice) {
  test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zeros");
  for (const char* name : {"fifo", "zeros", "."}) {
    const auto text = read_text(folder / name);
    ASSERT_FALSE(text) << name;
    EXPECT_THAT(text.error().message, HasSubstr("not a regular file"));
  }
}

TEST(TextFileTest, AFileThatIsReplacedKeepsItsModeAndItsLink) {
  test::TemporaryFolder folder;
  const std::string file = folder / "file";
  std::ofstream(file) << "old";
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  std::filesystem::create_symlink("file", folder / "link");
  const auto replaced = replace_file(folder / "link", "new");
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(read_text(file).value_or(""), "new");
  struct stat status {};
  ASSERT_EQ(::lstat((folder / "link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  const std::filesystem::directory_iterator all(folder.path());
  EXPECT_EQ(std::distance(begin(all), end(all)), 2) << "nothing is left beside it";
}

TEST(TextFileTest, ANameThatFitsIsNotTooLongToBeReplaced) {
  test::TemporaryFolder folder;
  const std::string file = folder / std::string(255, 'x');
  for (const char* text : {"old", "new"}) {
    const auto replaced = replace_file(file, text);
    ASSERT_TRUE(replaced) << replaced.error().message;
    EXPECT_EQ(read_text(file).value_or(""), text);
  }
}

TEST(TextFileTest, WhatIsNoFileIsNotReplaced) {
  test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", folder / "null");
  std::filesystem::create_symlink("/proc/self/fd/1", folder / "stdout");
  for (const char* name : {"fifo", "null", "stdout", "."}) {
    const auto before = std::filesystem::symlink_status(folder / name).type();
    const auto replaced = replace_file(folder / name, "text");
    ASSERT_FALSE(replaced) << name;
    EXPECT_EQ(replaced.error().kind, ErrorKind::kUsage) << name;
    EXPECT_THAT(replaced.error().message, HasSubstr("name a file")) << name;
    EXPECT_EQ(std::filesystem::symlink_status(folder / name).type(), before) << name;
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(TextFileTest, StopsAtTheLimit) {
  test::TemporaryFolder folder;
  std::ofstream(folder / "text") << std::string(5000, 'x');
  EXPECT_EQ(read_text(folder / "text", 5000).value_or("").size(), 5000u);
  const auto cut = read_text(folder / "text", 4999);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::kDamaged);
}

TEST(TextFileTest, ALimitOfFileSizesIsNamed) {
  test::TemporaryFolder folder;
  const UniqueFd file(::open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64u << 10, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = write_all(file.get(), std::string(65537, 'x'), "file");
  EXPECT_EQ(why_not_written(ENOSPC), std::strerror(ENOSPC));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("limit of file sizes, now 64K: ulimit -f"));
}

TEST(UninterruptedTest, ACallIsMadeAgainForASignalAlone) {
  int calls = 0;
  const auto failing = [&calls](int first, int then) {
    calls = 0;
    return uninterrupted([&calls, first, then] {
      errno = ++calls < 3 ? first : then;
      return -1;
    });
  };
  EXPECT_EQ(failing(EINTR, EIO), -1);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(failing(EAGAIN, EIO), -1);
  EXPECT_EQ(calls, 1);
}

TEST(JsonTextTest, DepthAndValuesAreBounded) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(is_bounded_json(nested(kDeepestJson)));
  EXPECT_FALSE(is_bounded_json(nested(kDeepestJson + 1)));
  EXPECT_TRUE(is_bounded_json("[\"\\\"" + std::string(100, '[') + "\"]"));
  std::string values = "[1";
  for (std::size_t i = 1; i < kMostJsonValues; ++i) values += ",1";
  EXPECT_TRUE(is_bounded_json(values + "]"));
  EXPECT_FALSE(is_bounded_json(values + ",1]"));
}

}  // namespace
}  // namespace trapline
