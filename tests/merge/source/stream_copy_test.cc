// What comes once is kept: the standard input, pipes, files of tracefs.
#include "merge/source/stream_copy.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "backend_ftrace/base/text_file.h"
#include "merge/session/open.h"
#include "merge/source/file.h"
#include "tests/merge/source/recordings.h"

namespace trapline {
namespace {

using test::contents;
using test::data_path;
using test::TemporaryFile;
using ::testing::HasSubstr;

// The bytes of `path`, as File reads them.
std::string bytes_of(const std::string& path) {
  const auto file = File::open(path);
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return {};
  std::string bytes(file->size(), '\0');
  EXPECT_TRUE(file->read(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

TEST(StreamCopy, AFileIsReadWhereItLies) {
  const std::string path = data_path("box/vmm.dat");
  EXPECT_EQ(readable_path(path).value(), path);
  EXPECT_EQ(readable_path("/nonexistent").value(), "/nonexistent");
  EXPECT_EQ(readable_path("/").value(), "/");
}

// As a shell names it for <(command).
TEST(StreamCopy, APipeIsReadAsOftenAsAFile) {
  const std::string whole = contents(data_path("perf/pipe.perf.data"));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  std::thread writer([&whole, end = ends[1]] {
    const UniqueFd fd(end);
    EXPECT_TRUE(write_all(fd.get(), whole, "the pipe"));
  });
  const std::string path = fmt::format("/dev/fd/{}", reader.get());
  EXPECT_EQ(bytes_of(path), whole);
  writer.join();
  EXPECT_EQ(bytes_of(path), whole);
  EXPECT_EQ(kind_of_source(path).value(), SourceKind::kPerfData);
}

TEST(StreamCopy, AFileWithoutASizeIsReadToItsEnd) {
  const auto copy = readable_path("/proc/self/status");
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_NE(*copy, "/proc/self/status");
  EXPECT_THAT(bytes_of("/proc/self/status"), HasSubstr("Pid:\t" + std::to_string(::getpid())));
  const TemporaryFile empty("");
  EXPECT_EQ(readable_path(empty.path()).value(), empty.path());
}

TEST(StreamCopy, NoRoomIsAnErrorThatNamesTheFolder) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nonexistent", 1);
  const auto none = readable_path("/proc/self/stat");
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("/nonexistent (TMPDIR)"));
}

}  // namespace
}  // namespace trapline
