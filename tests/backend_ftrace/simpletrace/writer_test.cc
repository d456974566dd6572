// The simple writer: threads, drops, full disks, signals, both layouts; read back by the reader.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/simpletrace/format.h"
#include "backend_ftrace/simpletrace/reader.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"
#include "trace-simple_events.h"

namespace trapline::simpletrace {
namespace {

using ::testing::HasSubstr;

struct Read {
  std::vector<std::string> lines;  // "name a b c", strings as they are
  std::vector<std::uint64_t> times;
  std::uint64_t dropped = 0;
  std::uint64_t cut = 0;
  std::uint64_t undecoded = 0;
  std::string error;
};

// The sanitizer's allocator does not survive a fork() while the writer's thread is in it: the child
// waits for ever.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kForkMayHang = true;
#else
constexpr bool kForkMayHang = false;
#endif

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    events_ = *tracetool::read_trace_events(SIMPLE_EVENTS);
    trapline_events_set("*", true);
  }
  void TearDown() override { trapline_simple_close(); }
  void open(bool rfc = false, bool signals = false) {
    trapline_simple_options options{};
    options.path = path_.c_str();
    options.rfc = rfc;
    options.flush_on_signals = signals;
    options.ring_bytes = 1 << 18;
    char error[512];
    ASSERT_EQ(trapline_simple_open(&options, error, sizeof error), 0) << error;
  }
  Read read() const {
    Read result;
    auto reader = Reader::open(path_, events_);
    if (!reader) {
      result.error = reader.error().message;
      return result;
    }
    Record record;
    for (;;) {
      const auto more = reader->next(record);
      if (!more) result.error = more.error().message;
      if (!more || !*more) break;
      if (record.dropped) {
        result.dropped += record.count;
        continue;
      }
      std::string line(record.name);
      for (const auto& value : record.values) {
        line += value.kind == tracetool::ValueKind::kString ? " " + std::string(value.text)
                                                            : " " + std::to_string(value.bits);
      }
      result.lines.push_back(line);
      result.times.push_back(record.timestamp);
    }
    result.cut = reader->cut_bytes();
    result.undecoded = reader->undecoded();
    return result;
  }
  std::string bytes() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write_bytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "trace";
  tracetool::EventFile events_;
};

TEST_F(WriterTest, BothLayoutsComeBackAsTheyWereWritten) {
  for (const bool rfc : {false, true}) {
    open(rfc);
    trace_alpha_read(-1);
    trace_alpha_write(7, "text");
    trace_alpha_write(8, nullptr);
    trace_alpha_write(9, std::string(2000, 'x').c_str());
    trapline_simple_close();
    const Read result = read();
    EXPECT_EQ(result.error, "");
    EXPECT_THAT(result.lines,
                ::testing::ElementsAre("alpha_read 18446744073709551615", "alpha_write 7 text",
                                       "alpha_write 8 ", "alpha_write 9 " + std::string(512, 'x')));
    EXPECT_EQ(result.cut, 0u);
    EXPECT_EQ(result.undecoded, 0u);
  }
}

TEST_F(WriterTest, FourThreadsLoseNothingThatIsNotCountedAndKeepTheirOrder) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEvents = 100'000;
  open();
  const std::uint64_t before = trapline_simple_dropped();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < kEvents; ++i) trace_beta_numbers(t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  trapline_simple_close();
  const Read result = read();
  EXPECT_EQ(result.error, "");
  std::map<std::string, std::uint64_t> last;
  for (const std::string& line : result.lines) {
    const auto space = line.rfind(' ');
    const std::uint64_t number = std::stoull(line.substr(space + 1));
    const auto [known, first] = last.try_emplace(line.substr(0, space), number);
    EXPECT_TRUE(first || number > known->second) << line;
    known->second = number;
  }
  EXPECT_EQ(last.size(), 4u);
  EXPECT_EQ(result.lines.size() + result.dropped, kThreads * kEvents);
  EXPECT_EQ(trapline_simple_dropped() - before, result.dropped);
}

TEST_F(WriterTest, MoreThreadsThanRingsStayCorrect) {
  open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 40; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < 1000; ++i) trace_beta_numbers(t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  trapline_simple_close();
  const Read result = read();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.lines.size() + result.dropped, 40'000u);
}

TEST_F(WriterTest, FlushPutsEverythingIntoTheFile) {
  open();
  for (int i = 0; i < 100; ++i) {
    trace_alpha_read(i);
    trapline_simple_flush();
    ASSERT_EQ(read().lines.size(), static_cast<std::size_t>(i + 1));
  }
}

TEST_F(WriterTest, OffMeansNothingIsRecordedAndOnGoesOn) {
  open();
  trace_alpha_read(1);
  trapline_simple_enable(false);
  trace_alpha_read(2);
  trapline_simple_enable(true);
  trace_alpha_read(3);
  trapline_simple_close();
  EXPECT_THAT(read().lines, ::testing::ElementsAre("alpha_read 1", "alpha_read 3"));
}

class WriterSignalTest : public WriterTest, public ::testing::WithParamInterface<int> {};

TEST_P(WriterSignalTest, AFatalSignalFlushesAndStillKills) {
  if (kForkMayHang) GTEST_SKIP() << "a fork() beside a thread";
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(GetParam(), SIG_DFL);  // a sanitizer may have its own
    open(false, true);
    for (int i = 0; i < 500; ++i) trace_alpha_read(i);
    ::raise(GetParam());
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_EQ(read().lines.size(), 500u);
}
INSTANTIATE_TEST_SUITE_P(Signals, WriterSignalTest,
                         ::testing::Values(SIGSEGV, SIGABRT, SIGTERM, SIGBUS));

TEST_F(WriterTest, AtExitEverythingIsInTheFile) {
  if (kForkMayHang) GTEST_SKIP() << "a fork() beside a thread";
  const pid_t child = ::fork();
  if (child == 0) {
    open();
    for (int i = 0; i < 500; ++i) trace_alpha_read(i);
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(read().lines.size(), 500u);
}

TEST_F(WriterTest, AChildOfForkWritesNothingIntoTheParentsFile) {
  if (kForkMayHang) GTEST_SKIP() << "a fork() beside a thread";
  open();
  trace_alpha_read(1);
  const pid_t child = ::fork();
  if (child == 0) {
    trace_alpha_read(2);
    trapline_simple_flush();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  trace_alpha_read(3);
  trapline_simple_close();
  EXPECT_THAT(read().lines, ::testing::ElementsAre("alpha_read 1", "alpha_read 3"));
}

TEST_F(WriterTest, AFileOfAChildHasItsOwnEventsOnly) {
  if (kForkMayHang) GTEST_SKIP() << "a fork() beside a thread";
  const std::string of_parent = path_;
  open();
  for (int i = 0; i < 500; ++i) trace_alpha_read(i);
  path_ = folder_ / "child";
  const pid_t child = ::fork();
  if (child == 0) {
    open();
    trace_alpha_read(1000);
    std::exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_THAT(read().lines, ::testing::ElementsAre("alpha_read 1000"));
  trapline_simple_close();
  path_ = of_parent;
  EXPECT_EQ(read().lines.size(), 500u);
}

TEST_F(WriterTest, AFullDiskIsCountedAndTheProgramRunsOn) {
  trapline_simple_options options{};
  options.path = "/dev/full";
  char error[512];
  EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("/dev/full: No space left on device"));
  options.path = "/nonexistent/x";
  EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("No such file or directory"));
  open();
  EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("close it first"));
}

// A disk that is full after some of the events: what was buffered then is counted as well.
TEST_F(WriterTest, EventsThatADiskRefusedAreCounted) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100'000, limit.rlim_max};
  const auto before_signal = ::signal(SIGXFSZ, SIG_IGN);
  const std::uint64_t before = trapline_simple_dropped();
  open();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  constexpr std::uint64_t kEvents = 5000;
  for (std::uint64_t i = 0; i < kEvents; ++i) trace_beta_numbers(0, i);
  trapline_simple_close();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::signal(SIGXFSZ, before_signal);
  const Read result = read();
  EXPECT_GT(result.lines.size(), 1000u);
  EXPECT_EQ(result.lines.size() + trapline_simple_dropped() - before, kEvents);
}

TEST_F(WriterTest, ALinkAndAPipeAreRefusedAndWhatTheLinkNamesStays) {
  const std::string victim = path_ + ".victim", link = path_ + ".link", pipe = path_ + ".pipe";
  std::ofstream(victim) << "somebody's";
  ASSERT_EQ(::symlink(victim.c_str(), link.c_str()), 0);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  trapline_simple_options options{};
  char error[512];
  options.path = link.c_str();
  EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("a symbolic link, which is not followed"));
  EXPECT_EQ(std::filesystem::file_size(victim), 10u);
  options.path = pipe.c_str();
  EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1);
  EXPECT_THAT(error, HasSubstr("a pipe"));
}

TEST_F(WriterTest, RootsFileIsMadeWhereNobodyElseLeadsIt) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  const std::string his = path_ + ".his", roots = path_ + ".roots";
  std::filesystem::create_directory(his);
  std::filesystem::create_directory(roots);
  std::ofstream(roots + "/trace") << "root's";
  std::ofstream(his + "/planted") << "his";
  std::filesystem::create_directory_symlink(roots, his + "/link");
  std::filesystem::create_hard_link(roots + "/trace", his + "/second");
  for (const std::string& made : {his, his + "/planted"}) {
    ASSERT_EQ(::chown(made.c_str(), 54321, 54321), 0);
  }
  for (const char* name : {"/link/trace", "/link/new", "/planted", "/second"}) {
    const std::string path = his + name;
    trapline_simple_options options{};
    options.path = path.c_str();
    char error[512];
    EXPECT_EQ(trapline_simple_open(&options, error, sizeof error), -1) << path;
    EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("a symbolic link, which is not followed"),
                                        HasSubstr("not a file that root made")));
  }
  EXPECT_EQ(std::filesystem::file_size(roots + "/trace"), 6u);
  EXPECT_FALSE(std::filesystem::exists(roots + "/new"));
  path_ = his + "/own";
  open();
  trace_alpha_read(1);
  trapline_simple_close();
  EXPECT_THAT(read().lines, ::testing::ElementsAre("alpha_read 1"));
}

// A switch of the monitor's while the program ends.
TEST_F(WriterTest, ClosingWaitsForASwitch) {
  for (int i = 0; i < 50; ++i) {
    open();
    std::thread switching([this] {
      trapline_simple_options options{};
      options.path = path_.c_str();
      options.ring_bytes = 1 << 18;
      char error[512];
      (void)trapline_simple_switch(&options, error, sizeof error);
    });
    trapline_simple_close();
    switching.join();
    trapline_simple_close();
    EXPECT_FALSE(trapline_simple_is_open());
  }
}

// Every version and both byte orders, made from what the writer wrote.
TEST_F(WriterTest, OlderVersionsAndTheOtherByteOrderAreRead) {
  for (const std::uint64_t version : {2u, 3u, 4u}) {
    for (const bool swap : {false, true}) {
      std::string file;
      const auto put = [&](auto value) {
        char raw[sizeof value];
        std::memcpy(raw, &value, sizeof value);
        if (swap) std::reverse(raw, raw + sizeof value);
        file.append(raw, sizeof raw);
      };
      put(kHeaderId), put(kHeaderMagic), put(version);
      const std::uint64_t id = version == 4 ? 77 : 1;  // before 4: the number in the events file
      if (version == 4) {
        put(kRecordMapping), put(id), put(std::uint32_t{11});
        file += "alpha_write";
        put(kRecordEvent);
      }
      put(id), put(std::uint64_t{1234}), put(std::uint32_t{24 + 8 + 4 + 3}), put(std::uint32_t{42});
      put(std::uint64_t{5}), put(std::uint32_t{3});
      file += "abc";
      if (version == 4) put(kRecordEvent);
      put(kDroppedId), put(std::uint64_t{1235}), put(std::uint32_t{32}), put(std::uint32_t{42});
      put(std::uint64_t{9});
      write_bytes(file);
      const Read result = read();
      EXPECT_EQ(result.error, "");
      EXPECT_THAT(result.lines, ::testing::ElementsAre("alpha_write 5 abc")) << version << swap;
      EXPECT_EQ(result.dropped, 9u);
      EXPECT_EQ(result.times[0], 1234u);
    }
  }
}

// A terminal whose other end is closed gives its bytes and then EIO.
TEST_F(WriterTest, AFileThatCannotBeReadOnIsAnError) {
  open();
  trace_alpha_read(1);
  trapline_simple_close();
  UniqueFd file(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(file && ::grantpt(file.get()) == 0 && ::unlockpt(file.get()) == 0);
  {
    const UniqueFd other(::open(::ptsname(file.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios raw{};
    ::cfmakeraw(&raw);
    ASSERT_EQ(::tcsetattr(other.get(), TCSANOW, &raw), 0);
    const std::string all = bytes();
    ASSERT_EQ(::write(other.get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
  }
  auto reader = Reader::read(std::make_shared<const UniqueFd>(std::move(file)), "trace", events_);
  ASSERT_TRUE(reader) << reader.error().message;
  Record record;
  EXPECT_TRUE(reader->next(record).value_or(false));
  const auto end = reader->next(record);
  ASSERT_FALSE(end);
  EXPECT_THAT(end.error().message, ::testing::HasSubstr("Input/output error"));
}

TEST_F(WriterTest, ACutFileIsReadUpToTheCutAndADamagedOneSaysWhere) {
  open();
  for (int i = 0; i < 5; ++i) trace_alpha_write(i, "text");
  trapline_simple_close();
  const std::string whole = bytes();
  const std::size_t all = read().lines.size();
  std::size_t previous = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(whole.substr(0, size));
    const Read result = read();
    if (size >= 24) {
      EXPECT_EQ(result.error, "") << size;
      EXPECT_GE(result.lines.size(), previous);
      EXPECT_LT(result.lines.size(), all);
      previous = result.lines.size();
    } else {
      EXPECT_NE(result.error, "") << size;
    }
  }
  std::string damaged = whole;
  damaged[whole.size() - 30] = '\xff';
  for (std::size_t i = 24; i < whole.size(); ++i) {  // nothing crashes, nothing runs away
    damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    write_bytes(damaged);
    const Read result = read();
    EXPECT_LE(result.lines.size(), 5u);
  }
  write_bytes("not a trace file at all, but long enough");
  EXPECT_THAT(read().error, HasSubstr("is not a simpletrace file (its first bytes"));
  write_bytes("\x17\x08\x44tracing, as trace-cmd begins its files");
  EXPECT_THAT(read().error, HasSubstr("trapline report reads it"));
}

}  // namespace
}  // namespace trapline::simpletrace
