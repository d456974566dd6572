// What trapline says of files that it cannot read, and of those that end early.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline::trace_dat {
namespace {

using ::testing::HasSubstr;
using trapline::test::contents;
using trapline::test::data_path;
using trapline::test::TemporaryFile;

const char* const kVersion6 = "box/demo-v6.dat";
const char* const kVersion7 = "box/no-kvm.dat";

// The error of opening `path`, or of reading it to its end; empty when there is none.
Error error_of(const std::string& path) {
  auto source = open_trace_dat(path, {});
  if (!source) return source.error();
  Event event;
  while ((*source)->next(event) == Read::kEvent) {
  }
  return (*source)->status() ? Error{"", ErrorKind{}} : (*source)->status().error();
}

class Unreadable : public ::testing::Test {
 protected:
  void expect(const std::string& path, ErrorKind kind, const std::string& says) {
    const Error error = error_of(path);
    EXPECT_EQ(error.kind, kind) << error.message;
    EXPECT_THAT(error.message, HasSubstr(path));
    EXPECT_THAT(error.message, HasSubstr(says));
  }
  void expect_bytes(const std::string& bytes, ErrorKind kind, const std::string& says) {
    file_.write(bytes);
    expect(file_.path(), kind, says);
  }
  static std::string replaced(std::string bytes, const std::string& what, const std::string& by) {
    const auto at = bytes.find(what);
    EXPECT_NE(at, std::string::npos);
    return bytes.replace(at, what.size(), by);
  }
  TemporaryFile file_{""};
};

TEST_F(Unreadable, FilesThatAreNoTraceDatAreNamed) {
  expect("/nonexistent/trace.dat", ErrorKind::kRuntime, "No such file");
  expect("/", ErrorKind::kRuntime, "not a regular file");
  expect_bytes("", ErrorKind::kDamaged, "empty");
  expect_bytes("perf", ErrorKind::kDamaged, "not a trace.dat");
  expect_bytes("PERFILE2" + std::string(4096, 'x'), ErrorKind::kDamaged, "trace-cmd record");
  expect_bytes(std::string(100'000, '\0'), ErrorKind::kDamaged, "not a trace.dat");
}

TEST_F(Unreadable, AFifoIsRefusedWithoutWaiting) {
  const std::string path = file_.path() + ".fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::alarm(20);
  expect(path, ErrorKind::kDamaged, "nothing came through it");
  ::alarm(0);
  ::unlink(path.c_str());
}

TEST_F(Unreadable, AFileWithoutPermissionIsRefused) {
  file_.write(contents(data_path(kVersion7)));
  ASSERT_EQ(::chmod(file_.path().c_str(), 0), 0);
  const uid_t user = ::geteuid();
  const uid_t nobody = 65534;
  if (user == 0) {
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  expect(file_.path(), ErrorKind::kRuntime, "Permission denied");
  if (user == 0) {
    ASSERT_EQ(::seteuid(user), 0);
  }
}

TEST_F(Unreadable, OtherVersionsAndCompressionsAreNamed) {
  const std::string seven = contents(data_path(kVersion7));
  std::string version = seven;
  version[10] = '8';
  expect_bytes(version, ErrorKind::kRuntime, "version 8");
  for (const std::string other : {"lzma", "\x1b[2J"}) {
    expect_bytes(replaced(seven, "zstd", other), ErrorKind::kRuntime,
                 other[0] == '\x1b' ? "\\x1b[2J" : other);
  }
}

TEST_F(Unreadable, ARecordingWithoutDataSaysSo) {
  std::string six = contents(data_path(kVersion6));
  const auto table = six.find(std::string("flyrecord\0", 10)) + 10;
  six.replace(table + 8, 8, std::string(8, '\0'));
  expect_bytes(six, ErrorKind::kDamaged, "holds no events");
}

TEST_F(Unreadable, PagesWithoutEventsAreDamaged) {
  std::string six = contents(data_path(kVersion6));
  const auto table = six.find(std::string("flyrecord\0", 10)) + 10;
  std::uint64_t pages = 0;
  std::memcpy(&pages, six.data() + table, sizeof pages);
  for (std::size_t page = pages; page < six.size(); page += 4096)
    six.replace(page + 8, 8, std::string(8, '\0'));
  expect_bytes(six, ErrorKind::kDamaged, "none of its pages can be read");
}

TEST_F(Unreadable, ALatencyTracersTextIsNoRecordingOfEvents) {
  expect_bytes(replaced(contents(data_path(kVersion6)), std::string("flyrecord\0", 10),
                        std::string("latency  \0", 10)),
               ErrorKind::kDamaged, "latency");
}

TEST_F(Unreadable, CountsAndSizesThatCannotBeAreDamage) {
  std::string six = contents(data_path(kVersion6));
  const auto table = six.find(std::string("flyrecord\0", 10)) + 10;
  std::string outside = six;
  outside.replace(table + 8, 8, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
  expect_bytes(outside, ErrorKind::kDamaged, "outside");
  std::string pages = six;  // the page size is at 14
  pages.replace(14, 4, std::string("\0\0\0\0", 4));
  expect_bytes(pages, ErrorKind::kDamaged, "pages of 0 bytes");
  std::string longs = six;
  longs[13] = 5;
  expect_bytes(longs, ErrorKind::kDamaged, "a long of 5 bytes");
}

TEST_F(Unreadable, AHeaderCutAnywhereIsAnError) {
  for (const char* const name : {kVersion6, kVersion7}) {
    const std::string whole = contents(data_path(name));
    for (std::size_t size = 0; size <= 4096; ++size) {
      file_.write(std::string_view(whole).substr(0, size));
      const Error error = error_of(file_.path());
      ASSERT_THAT(error.message, HasSubstr(file_.path())) << name << " cut at " << size;
      ASSERT_EQ(error.kind, ErrorKind::kDamaged) << error.message << " cut at " << size;
    }
  }
}

// What is read of it nevertheless: tests/merge/cut_files.py.
TEST_F(Unreadable, AFileCutAnywhereIsToldSo) {
  for (const char* const name : {kVersion6, kVersion7, "box/demo-instance.dat"}) {
    const std::string whole = contents(data_path(name));
    for (std::size_t size = 4096; size < whole.size(); size += whole.size() / 60) {
      file_.write(std::string_view(whole).substr(0, size));
      // Version 7 ends in its section names, which nobody needs.
      const bool whole_but_names = whole.size() - size < 128;
      const Error error = error_of(file_.path());
      if (whole_but_names && error.message.empty()) continue;
      EXPECT_EQ(error.kind, ErrorKind::kDamaged) << name << " cut at " << size;
      EXPECT_THAT(error.message, HasSubstr(file_.path()));
      EXPECT_THAT(error.message, HasSubstr("cut off"));
    }
  }
}

// The options tell of a second instance, whose data would come after that of the first.
TEST_F(Unreadable, AFileCutInABufferNamesTheBuffersAfterIt) {
  std::string whole = contents(data_path("box/demo-instance.dat"));
  const std::size_t at = whole.find("CPU: 0\nentries: 11806");
  ASSERT_NE(at, std::string::npos);
  std::uint32_t size = 0;
  std::memcpy(&size, whole.data() + at - sizeof size, sizeof size);
  const std::string id = whole.substr(at - 6, 2);
  std::string options;
  const auto add = [&](std::string text, std::uint32_t length) {
    options += id;
    options.append(reinterpret_cast<const char*>(&length), sizeof length);
    text.resize(length, '\0');
    options += text;
  };
  add("CPU: 0\nentries: 11806\n", 24);
  add("\nBuffer: second\n", 24);
  const auto rest = static_cast<std::uint32_t>(size - options.size());
  ASSERT_GE(rest, 24u);
  add("CPU: 0\nentries: 7\n", rest);
  whole.replace(at - 6, 6 + size, options);
  file_.write(std::string_view(whole).substr(0, whole.size() / 2));
  const Error error = error_of(file_.path());
  EXPECT_THAT(error.message, HasSubstr("of CPU 0's data in buffer 'trapline'"));
  EXPECT_THAT(error.message, HasSubstr("missing: the index of the CPUs' data, buffer 'second'"));
}

TEST_F(Unreadable, OptionsThatNobodyKnowsArePassedOverAndNamed) {
  std::string six = contents(data_path(kVersion6));
  const auto options = six.find(std::string("options  \0", 10)) + 10;
  const std::string unknown("\x29\0\x03\0\0\0abc", 9);
  const auto clock = six.find(std::string("\x04\0", 2), options);
  // Instead of a part of another's text, so that nothing moves.
  std::uint32_t size = 0;
  std::memcpy(&size, six.data() + clock + 2, sizeof size);
  const auto shorter = static_cast<std::uint32_t>(size - unknown.size());
  std::memcpy(six.data() + clock + 2, &shorter, sizeof shorter);
  const auto text = six.substr(clock + 6, size);
  const auto chosen = text.find('[');
  ASSERT_NE(chosen, std::string::npos);
  std::string clocks = text.substr(chosen, text.find(']') - chosen + 1);
  clocks.resize(shorter, '\0');
  six.replace(clock + 6, size, clocks + unknown);
  file_.write(six);
  auto source = open_trace_dat(file_.path(), {});
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->layout().unknown_options, (std::map<std::uint16_t, std::uint32_t>{{41, 1}}));
  EXPECT_THAT((*source)->facts(),
              ::testing::Contains(::testing::Pair("not read", HasSubstr("41"))));
  EXPECT_EQ((*source)->layout().clock, "mono");
}

TEST_F(Unreadable, OptionSectionsInACircleAreDamage) {
  // An option section is {u16 id, u16 flags, u32 name, u64 size}, its options, of which the last
  // ends in the u64 offset of the next section: 0 at the end of the chain.
  std::string seven = contents(data_path(kVersion7));
  const auto number = [&seven](std::uint64_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, seven.data() + at, sizeof value);
    return value;
  };
  const std::uint64_t first = number(seven.find('\0', seven.find("zstd") + 5) + 1);
  std::uint64_t link = first + 16 + number(first + 8) - 8;
  while (number(link) != 0) link = number(link) + 16 + number(number(link) + 8) - 8;
  std::memcpy(seven.data() + link, &first, sizeof first);
  expect_bytes(seven, ErrorKind::kDamaged, "form a loop");
}

}  // namespace
}  // namespace trapline::trace_dat
