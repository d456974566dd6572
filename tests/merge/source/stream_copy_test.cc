// What comes once is kept: the standard input, pipes, files of tracefs.
#include "merge/source/stream_copy.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "backend_ftrace/base/text_file.h"
#include "merge/session/open.h"
#include "merge/source/file.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline {
namespace {

using test::contents;
using test::data_path;
using test::TemporaryFile;
using ::testing::HasSubstr;
using ::testing::Not;

// The bytes of `path`, as File reads them.
std::string bytes_of(const std::string& path) {
  const auto file = File::open(path);
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return {};
  std::string bytes(file->size(), '\0');
  EXPECT_TRUE(file->read(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// Returns what /proc names the file that is read for `path`.
std::string read_for(const std::string& path) {
  const auto fd = open_readable(path);
  EXPECT_TRUE(fd) << fd.error().message;
  return fd ? std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd->get())).string()
            : std::string();
}

TEST(StreamCopy, AFileIsReadWhereItLies) {
  const std::string path = data_path("box/vmm.dat");
  EXPECT_EQ(read_for(path), std::filesystem::canonical(path));
  EXPECT_EQ(read_for("/"), "/");
  EXPECT_THAT(open_readable("/nonexistent").error().message, HasSubstr("No such file"));
}

// Sources of one recording share its descriptor, also while several of them read.
TEST(StreamCopy, ARecordingIsOpenedOnceHoweverOftenItIsRead) {
  const TemporaryFile file(contents(data_path("box/vmm.dat")));
  const auto part = recognise(file.path());
  ASSERT_TRUE(part);
  const auto source = open_source(*part, {});
  ASSERT_TRUE(source);
  std::filesystem::remove(file.path());
  const auto counts = [](Source& read) {
    for (Event event; read.next(event) == Read::kEvent;) continue;
    EXPECT_TRUE(read.status());
    return read.event_counts();
  };
  const auto first = (*source)->again(), second = (*source)->again();
  ASSERT_TRUE(first && second);
  Event event;
  EXPECT_EQ((*second)->next(event), Read::kEvent);
  const auto all = counts(**first);
  EXPECT_FALSE(all.empty());
  EXPECT_EQ(counts(**second), all);
  EXPECT_EQ(counts(**source), all);
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
  EXPECT_THAT(read_for("/proc/self/status"), Not(HasSubstr("status")));
  EXPECT_THAT(bytes_of("/proc/self/status"), HasSubstr("Pid:\t" + std::to_string(::getpid())));
  const TemporaryFile empty("");
  EXPECT_EQ(read_for(empty.path()), std::filesystem::canonical(empty.path()));
}

TEST(StreamCopy, NoRoomIsAnErrorThatNamesTheFolder) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nonexistent", 1);
  const auto none = open_readable("/proc/self/stat");
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("/nonexistent (TMPDIR)"));
}

}  // namespace
}  // namespace trapline
