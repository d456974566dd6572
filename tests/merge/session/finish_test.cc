// Making trace.dat whole, when the recorder or an earlier attempt was killed at any point.
#include "merge/session/finish.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "merge/record/page_files.h"
#include "merge/record/page_reader.h"
#include "merge/source/trace_dat/unfinished.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::Values;

// Where pages were streamed to: a file for each CPU, regions of one file, or both.
enum class Streamed { kFiles, kRegions, kFullRegions };

constexpr std::size_t kPage = 4096;
constexpr unsigned kCpus = 4;
constexpr unsigned kPages[kCpus] = {3, 0, 600, 1};

std::string page(unsigned cpu, unsigned number) {
  std::string bytes(kPage, static_cast<char>('a' + cpu));
  const std::uint64_t time = 1 + number;
  std::memcpy(bytes.data(), &time, sizeof time);
  std::memset(bytes.data() + sizeof time, 0, sizeof time);  // no events
  return bytes;
}

std::string all_pages() {
  std::string bytes;
  for (unsigned cpu = 0; cpu < kCpus; ++cpu) {
    for (unsigned i = 0; i < kPages[cpu]; ++i) bytes += page(cpu, i);
  }
  return bytes;
}

class FinishTest : public ::testing::TestWithParam<Streamed> {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "raw");
    std::ofstream(folder_ / "session.json") << "{}";
    const std::uint64_t largest = GetParam() == Streamed::kFiles     ? 0
                                  : GetParam() == Streamed::kRegions ? ~std::uint64_t{0}
                                                                     : 1u << 20;
    auto files = PageFiles::open(
        session_, "HEAD", {kPage, 0, kCpus, "local [mono]", "Linux", "trapline", {}}, largest);
    ASSERT_TRUE(files) << files.error().message;
    TRAPLINE_REQUIRE(GetParam() == Streamed::kFiles || files->regions().any(),
                     "needs a file system that closes holes (ext4, xfs)");
    for (unsigned cpu = 0; cpu < kCpus; ++cpu) {
      for (unsigned i = 0; i < kPages[cpu]; ++i) {
        const std::string bytes = page(cpu, i);
        ASSERT_TRUE(files->page(cpu, std::as_bytes(std::span(bytes))));
      }
    }
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // As readers see it, finished or not.
  [[nodiscard]] std::string seen() const {
    const auto file = trace_dat::open_trace_file(folder_ / "trace.dat");
    EXPECT_TRUE(file) << file.error().message;
    if (!file) return {};
    std::string bytes(file->size(), '\0');
    const auto got = file->read(0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(got) << got.error().message;
    return bytes;
  }
  void expect_whole() const {
    const std::string trace = read("trace.dat");
    EXPECT_TRUE(trace.starts_with("HEAD"));
    EXPECT_EQ(trace.size() % kPage, 0u);
    EXPECT_LT(trace.size(), all_pages().size() + 4 * kPage);
    EXPECT_TRUE(trace.ends_with(all_pages()));
    EXPECT_FALSE(fs::exists(folder_ / "raw"));
  }

  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_ / "session";
  Folder session_ = [this] {
    fs::create_directories(folder_);
    return std::move(*Folder::open(folder_));
  }();
};

INSTANTIATE_TEST_SUITE_P(Layouts, FinishTest,
                         Values(Streamed::kFiles, Streamed::kRegions, Streamed::kFullRegions));

// What holds where all pages are in regions.
class FinishRegionsTest : public FinishTest {};
INSTANTIATE_TEST_SUITE_P(Layouts, FinishRegionsTest, Values(Streamed::kRegions));

TEST_P(FinishTest, IsReadAsWhatItBecomes) {
  const std::string before = seen();
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  expect_whole();
  EXPECT_EQ(read("trace.dat"), before);
  EXPECT_EQ(finish_session(folder_), Finish::kNothingToDo);
}

// What a disk refused once is in the page cache for a while, and then zeros, or what was there.
TEST_P(FinishTest, PagesThatAreNotAsTheyWereWrittenAreCountedAndTold) {
  constexpr unsigned kCpu = 2;
  const auto start = *trace_dat::read_start(session_);
  const bool in_region = start.regions().any();
  const auto file = session_.open_file(
      in_region ? trace_dat::kStream : "raw/" + trace_dat::cpu_name(kCpu), O_RDWR);
  ASSERT_TRUE(file) << file.error().message;
  const std::string torn_page = page(kCpu, 5).substr(0, 16) + std::string(kPage - 16, 'x');
  std::string no_events = torn_page;
  no_events[8] = 40;  // events that do not fit
  const std::string zeros(kPage, '\0');
  const auto at = static_cast<off_t>(in_region ? start.regions().at(kCpu) : 0);
  ASSERT_EQ(::pwrite(file->get(), zeros.data(), kPage, at + 5 * 4096), 4096);
  ASSERT_EQ(::pwrite(file->get(), no_events.data(), kPage, at + 9 * 4096), 4096);
  std::uint64_t torn = 0;
  ASSERT_EQ(finish_session(folder_, &torn), Finish::kFinished);
  EXPECT_EQ(torn, 2u);
  const auto session = read_session_json(folder_);
  ASSERT_TRUE(session);
  ASSERT_EQ(session->losses.size(), 1u);
  EXPECT_EQ(session->losses[0].cpu, kCpu);
  EXPECT_EQ(session->losses[0].unwritten_pages, 2u);
  EXPECT_FALSE(session->closed);
}

TEST_P(FinishRegionsTest, PagesStayWhereTheyAre) {
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((folder_ / "raw/trace.dat").c_str(), &before), 0);
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  ASSERT_EQ(::stat((folder_ / "trace.dat").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_GT(before.st_size, std::int64_t{1} << 30);
  EXPECT_GE(after.st_blocks * 512, after.st_size) << "it has holes";
}

// Ends the attempt by a signal at some time; the times are chosen over its whole length.
TEST_P(FinishTest, AnAttemptThatIsKilledAnywhereIsReadAndDoneAgain) {
  const std::string whole = seen();
  std::mt19937 chance(1);
  unsigned killed = 0;
  for (unsigned tries = 0; tries < 200 && !fs::exists(folder_ / "trace.dat"); ++tries) {
    const pid_t child = ::fork();
    if (child == 0) {
      // Early at first, so that a fast disk does not finish before the first kill.
      const auto us = static_cast<suseconds_t>(1 + chance() % (30 + 15 * tries));
      const itimerval soon{{0, 0}, {0, us}};
      ::setitimer(ITIMER_REAL, &soon, nullptr);
      (void)finish_session(folder_);
      ::_exit(0);
    }
    (void)chance();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1u : 0u;
    ASSERT_EQ(seen(), whole) << "after " << tries;
  }
  EXPECT_GT(killed, 0u);
  ASSERT_TRUE(finish_session(folder_));
  EXPECT_EQ(read("trace.dat"), whole);
}

// A file system may close a hole extent by extent: the power may go when half have moved.
TEST_P(FinishRegionsTest, AHoleThatIsHalfClosedIsReadAndClosed) {
  const std::string whole = seen();
  const auto start = *trace_dat::read_start(session_);
  const auto stream = session_.open_file(trace_dat::kStream, O_RDWR);
  ASSERT_TRUE(stream);
  const auto streamed = trace_dat::look_at_pages(session_, start, stream->get());
  trace_dat::FinishPlan plan;
  ASSERT_TRUE(streamed);
  plan.areas = trace_dat::tail_of(session_, start, *streamed, {})->areas;
  ASSERT_TRUE(trace_dat::write_plan(session_, plan));
  const std::uint64_t begin = plan.begin(), big = plan.areas[2].offset;
  constexpr std::uint64_t kMoved = 217 * kPage;
  const auto put = [&](std::uint64_t from, std::uint64_t size, std::uint64_t at) {
    EXPECT_EQ(::pwrite(stream->get(), whole.data() + from, size, static_cast<off_t>(at)),
              static_cast<ssize_t>(size));
  };
  ASSERT_EQ(::ftruncate(stream->get(), 0), 0);
  put(0, big + kMoved, 0);
  put(big + kMoved, whole.size() - big - kMoved - kPage, start.regions().at(2) + kMoved);
  put(whole.size() - kPage, kPage, start.regions().at(3));
  ASSERT_GT(begin, 4u);
  EXPECT_EQ(seen(), whole);
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  EXPECT_EQ(read("trace.dat"), whole);
}

TEST_P(FinishTest, BeginsAgainWhenTheTailWasCutOff) {
  const std::string whole = seen();
  const auto stream = session_.open_file(trace_dat::kStream, O_RDWR);
  const std::string half = "half a tail" + std::string(3 * kPage, 't');
  ASSERT_EQ(::pwrite(stream->get(), half.data(), half.size(), 4),
            static_cast<ssize_t>(half.size()));
  EXPECT_EQ(seen(), whole);
  ASSERT_EQ(finish_session(folder_), Finish::kFinished);
  EXPECT_EQ(read("trace.dat"), whole);
}

TEST_P(FinishTest, LeavesASessionAloneThatIsBeingWritten) {
  const auto lock = lock_session(session_);
  ASSERT_TRUE(lock);
  const auto finished = finish_session(folder_);
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, ::testing::HasSubstr("still writing"));
}

TEST(LossTest, ReadsTheKernelsCounts) {
  const CpuLoss loss =
      read_loss(3, "entries: 5\noverrun: 12\ncommit overrun: 1\nbytes: 3\ndropped events: 4\n");
  EXPECT_EQ(loss.cpu, 3u);
  EXPECT_EQ(loss.overwritten, 12u);
  EXPECT_EQ(loss.dropped, 5u);
  EXPECT_EQ(loss.unread, 5u);
  EXPECT_FALSE(read_loss(0, "overrun: 0\n").any());
}

}  // namespace
}  // namespace trapline::record
