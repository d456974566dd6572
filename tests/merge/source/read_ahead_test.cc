// What a source gives that a thread reads is what it gives without one.
#include "merge/source/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/source.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/analyze/events.h"
#include "tests/merge/source/mutate.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

constexpr std::uint64_t kMutations = 10;

std::unique_ptr<Source> opened(const std::string& path, EventClass events) {
  auto source = trace_dat::open_trace_dat(path, {});
  if (!source) return nullptr;
  (*source)->select(events);
  return std::move(*source);
}

std::string words(const SourceCounters& counters) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", counters.events, counters.lost_events,
                     counters.gaps, counters.gaps_uncounted, counters.left_out_events,
                     counters.left_out_pieces, counters.first.ns(), counters.last.ns(),
                     counters.damaged_events);
}

std::string_view bytes(const Event& event) {
  return {reinterpret_cast<const char*>(event.raw.data()), event.raw.size()};
}

auto facts(const Event& event) {
  return std::tuple(event.at, event.cpu, event.thread, event.type, event.payload.index());
}

// Reads both to their ends.
void expect_the_same(Source& alone, Source& ahead) {
  std::uint64_t events = 0;
  for (Event one, other;; ++events) {
    const Read read = alone.next(one);
    ASSERT_EQ(ahead.next(other), read) << events;
    if (read != Read::kEvent) break;
    ASSERT_EQ(facts(other), facts(one)) << events;
    ASSERT_TRUE(bytes(other) == bytes(one)) << events;
    if (const auto* marker = std::get_if<Marker>(&one.payload)) {
      ASSERT_EQ(std::get<Marker>(other.payload).text, marker->text);
    }
  }
  EXPECT_EQ(words(ahead.counters()), words(alone.counters()));
  EXPECT_EQ(ahead.event_counts(), alone.event_counts());
  EXPECT_EQ(ahead.status().has_value(), alone.status().has_value());
  if (!alone.status()) {
    EXPECT_EQ(ahead.status().error().message, alone.status().error().message);
  }
  Event event;
  EXPECT_EQ(ahead.next(event), Read::kEnd);
}

class ReadAheadTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, ReadAheadTest, ::testing::ValuesIn(recordings()), test_name);

TEST_P(ReadAheadTest, GivesTheSameEvents) {
  for (const EventClass events : {EventClass::kAll, EventClass::kExits}) {
    const auto alone = opened(data_path(GetParam()), events);
    ASSERT_TRUE(alone);
    auto source = opened(data_path(GetParam()), events);
    const Source* const before = source.get();
    const auto ahead = read_ahead(std::move(source));
    ASSERT_NE(ahead.get(), before);
    expect_the_same(*alone, *ahead);
  }
}

TEST_P(ReadAheadTest, GivesTheSameOfADamagedFile) {
  Mutator mutator(contents(data_path(GetParam())), {});
  const TemporaryFile file("");
  for (std::uint64_t seed = 0; seed < kMutations && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "mutation " << seed);
    file.write(mutator.mutated(seed));
    const auto alone = opened(file.path(), EventClass::kAll);
    if (!alone) continue;
    expect_the_same(*alone, *read_ahead(opened(file.path(), EventClass::kAll)));
  }
}

// Also while the thread waits for room.
TEST_P(ReadAheadTest, EndsWhereItStopsBeforeTheEnd) {
  for (const int most : {0, 1, 600}) {
    const auto ahead = read_ahead(opened(data_path(GetParam()), EventClass::kAll));
    Event event;
    for (int i = 0; i < most; ++i) (void)ahead->next(event);
    EXPECT_TRUE(ahead->status());
    EXPECT_LE(ahead->progress(), 1);
  }
}

// A source that cannot keep its buffers is read by who takes its events.
TEST(ReadAheadOfOthers, IsTheSourceItself) {
  auto source = std::make_unique<MemorySource>();
  const Source* const before = source.get();
  EXPECT_EQ(read_ahead(std::move(source)).get(), before);
}

TEST(ReadAheadOfOthers, IsForProcessesWithMoreThanOneCpu) {
  cpu_set_t all, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_LE(most_read_ahead(), static_cast<std::size_t>(CPU_COUNT(&all)));
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(most_read_ahead(), 0u);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
}

// Where the user may have no more threads, in a process of its own.
int read_without_a_thread() {
  const auto alone = opened(data_path("svm-mono.dat"), EventClass::kAll);
  const auto ahead = read_ahead(opened(data_path("svm-mono.dat"), EventClass::kAll));
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 2;
  try {
    std::thread([] {}).join();
    return 2;  // the limit does not hold
  } catch (const std::system_error&) {
    expect_the_same(*alone, *ahead);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(ReadAheadOfOthers, ReadsWithoutAThreadWhereNoneCanBeHad) {
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    int status = 2;
    try {
      status = read_without_a_thread();
    } catch (...) {  // this process goes no further
    }
    ::_exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Each of its events is in a buffer of its own, as where hardly any event is of interest.
class SparseSource final : public ForwardingSource {
 public:
  static constexpr std::size_t kBytes = 256u << 10;
  static constexpr std::uint64_t kEvents = 2000;

  explicit SparseSource(std::size_t& allocated)
      : ForwardingSource(std::make_unique<MemorySource>()), allocated_(allocated) {}
  bool keep_buffers(KeptBuffers& kept) override {
    kept_ = &kept;
    return true;
  }
  Read next(Event& event) override {
    // The first leaves one that an event points into, the others do not.
    for (int i = 0; i < 3; ++i) {
      buffer_ = kept_->exchange(std::move(buffer_), filled_);
      filled_ = kept_->events();
      if (buffer_.empty()) allocated_ += kBytes;
      buffer_.resize(kBytes);
    }
    if (++events_ > kEvents) return Read::kEnd;
    std::memcpy(buffer_.data(), &events_, sizeof events_);
    event = entry(events_);
    event.raw = buffer_;
    return Read::kEvent;
  }

 private:
  std::size_t& allocated_;
  KeptBuffers* kept_ = nullptr;
  KeptBuffers::Buffer buffer_;
  std::uint64_t filled_ = 0, events_ = 0;
};

TEST(ReadAheadOfOthers, HoldsFewBuffersAndEachAsLongAsAnEventPointsIntoIt) {
  std::size_t allocated = 0;
  {
    const auto ahead = read_ahead(std::make_unique<SparseSource>(allocated));
    Event event;
    for (std::uint64_t i = 1; i <= SparseSource::kEvents; ++i) {
      ASSERT_EQ(ahead->next(event), Read::kEvent);
      if (i % 500 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_EQ(load<std::uint64_t>(event.raw.data()), i);
    }
    ASSERT_EQ(ahead->next(event), Read::kEnd);
  }
  EXPECT_LE(allocated, 20u << 20);
}

// What goes wrong in the thread reaches who takes the events, after those that came before.
class ThrowingSource final : public ForwardingSource {
 public:
  ThrowingSource() : ForwardingSource(std::make_unique<MemorySource>()) {}
  bool keep_buffers(KeptBuffers&) override { return true; }
  Read next(Event& event) override {
    if (++events_ > kGood) throw std::runtime_error("out of it");
    event = entry(events_);
    return Read::kEvent;
  }

  static constexpr std::uint64_t kGood = 2000;

 private:
  std::uint64_t events_ = 0;
};

TEST(ReadAheadOfOthers, PassesAnExceptionOn) {
  const auto ahead = read_ahead(std::make_unique<ThrowingSource>());
  Event event;
  for (std::uint64_t i = 0; i < ThrowingSource::kGood; ++i)
    ASSERT_EQ(ahead->next(event), Read::kEvent);
  EXPECT_EQ(event.at.ns(), ThrowingSource::kGood);
  EXPECT_THROW((void)ahead->next(event), std::runtime_error);
}

}  // namespace
}  // namespace trapline::test
