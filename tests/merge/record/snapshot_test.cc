// The parts of --snapshot-on that no recording shows: what is joined, and a vCPU that crosses CPUs
// while nothing is kept.
#include "merge/record/snapshot.h"

#include <gmock/gmock.h>

#include <cstring>

#include "merge/analyze/exit_tracker.h"
#include "merge/record/page_cut.h"
#include "tests/merge/record/replay.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::Recorded;
using trapline::test::data_path;

// libtraceevent tells a page's loss only if the page begins with an event, not with a time extend,
// a time stamp or a discarded event.
TEST(CutPageTest, APieceBeginsWithAnEvent) {
  constexpr std::uint32_t kData = 1, kPadding = 29, kTimeExtend = 30, kTimeStamp = 31;
  constexpr std::uint32_t kDelta = 5, kDeltaBits = 27, kMost = (1u << kDeltaBits) - 1;
  constexpr std::uint64_t kTime = 1000, kLater = kTime + (std::uint64_t{2} << kDeltaBits) + kDelta;
  const auto stamp = static_cast<std::uint32_t>(kLater - kDelta) & kMost;
  const std::vector<std::uint32_t> before[] = {
      {kTimeExtend, 2},
      {kTimeStamp | stamp << kDelta, 2},
      {kPadding | 3u << kDelta, 8, 0, kTimeExtend | (kMost - 2) << kDelta, 1}};
  for (const auto& words : before) {
    std::vector<std::uint32_t> events{kData, 7};
    events.insert(events.end(), words.begin(), words.end());
    events.insert(events.end(), {kData | kDelta << 5, 8});
    std::vector<std::byte> page(4096), out(4096);
    const std::uint64_t commit = events.size() * 4;
    std::memcpy(page.data(), &kTime, 8);
    std::memcpy(page.data() + 8, &commit, 8);
    std::memcpy(page.data() + kPageHead, events.data(), commit);
    const CutPage piece = cut_page(page, kTime + 100, ~std::uint64_t{0}, out);
    EXPECT_EQ(piece.skipped, 1u);
    EXPECT_EQ(piece.events, 1u);
    EXPECT_EQ(piece.used, kPageHead + 8);
    EXPECT_EQ(load<std::uint32_t>(out.data() + kPageHead), kData | kDelta << 5);
    const auto facts = look_at_page(out);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->first, kLater);
  }
}

TEST(WindowsTest, JoinsWhatTouches) {
  Windows windows;
  windows.add({50, 60});
  windows.add({10, 20});
  windows.add({30, 40});
  EXPECT_THAT(windows.all(), ElementsAre(Window{10, 20}, Window{30, 40}, Window{50, 60}));
  windows.add({20, 35});
  EXPECT_THAT(windows.all(), ElementsAre(Window{10, 40}, Window{50, 60}));
  EXPECT_THAT(windows.take_before(50), ElementsAre(Window{10, 40}));
  windows.add({0, 100});
  EXPECT_THAT(windows.all(), ElementsAre(Window{0, 100}));
}

// A host of three CPUs with two vCPU threads, made of real events (box/demo-v6.dat).
class SnapshotTest : public ::testing::Test {
 protected:
  static constexpr std::int32_t kA = 11, kB = 12, kBusy = 99;  // kB is dead
  static constexpr std::uint64_t kSecond = 1'000'000'000;
  using RingPage = trace_dat::RingPage;

  SnapshotTest() : recorded_(data_path("box/demo-v6.dat")), formats_(recorded_.formats()) {
    for (const auto& cpu : recorded_.events()) {
      for (const Recorded& event : cpu) {
        Event decoded;
        const auto bytes = std::as_bytes(std::span(event.bytes));
        (void)formats_.decode({event.time, bytes.data(), static_cast<std::uint32_t>(bytes.size())},
                              decoded);
        if (std::holds_alternative<KvmEntry>(decoded.payload)) entry_ = event.bytes;
        if (std::holds_alternative<KvmUserspaceExit>(decoded.payload)) to_user_ = event.bytes;
        const auto* exit = std::get_if<KvmExit>(&decoded.payload);
        if (exit == nullptr) continue;
        samples_[formats_.reasons().of({exit->reason, exit->isa})] = event.bytes;
      }
    }
  }

  void exit(std::uint64_t time, unsigned cpu, std::int32_t thread, const std::string& reason) {
    add(time, cpu, thread, samples_.at(reason));
  }
  void halt(std::uint64_t time, unsigned cpu, std::int32_t thread) {
    constexpr std::uint32_t kSvmHlt = 0x78;  // the recording has none: exit_reason, the first field
    std::string bytes = samples_.at("io");
    std::memcpy(bytes.data() + kernel_events::kCommonFields, &kSvmHlt, sizeof kSvmHlt);
    add(time, cpu, thread, bytes);
  }
  void entry(std::uint64_t time, unsigned cpu, std::int32_t thread) {
    add(time, cpu, thread, entry_);
  }
  void to_user(std::uint64_t time, unsigned cpu, std::int32_t thread) {
    add(time, cpu, thread, to_user_);
  }
  // The page of that time tells that events were lost before it.
  void lost_before(std::uint64_t time) {
    auto& [cpu, page] = pages_.at(time);
    mark_missed(page, look_at_page(page)->used, RingPage::kUnknownLost);
  }
  // One vCPU that runs and exits all the time, on a CPU of its own.
  void busy(std::uint64_t from, std::uint64_t to, std::uint64_t step, unsigned cpu) {
    for (std::uint64_t time = from; time < to; time += step) {
      exit(time, cpu, kBusy, "cpuid");
      entry(time + 10, cpu, kBusy);
    }
  }

  // One event to a page, all read in one round of its own.
  void cut(const std::string& trigger, std::uint64_t around) {
    auto watch = TriggerMatcher::open(*parse_trigger(trigger), recorded_.formats());
    ASSERT_TRUE(watch);
    kept_.assign(3, {});
    std::size_t written = 0;
    Snapshot snapshot(
        {around, 1u << 20, 4096, 3}, std::move(*watch),
        [](ThreadId thread) { return thread != ThreadId{kB}; },
        [&](unsigned cpu, std::span<const std::byte> page) -> Result<void> {
          if (written++ == room_) return fail("No space left on device");
          kept_[cpu].emplace_back(page.begin(), page.end());
          return {};
        });
    bool broken = false;
    largest_ = 0;
    for (const auto& [time, page] : pages_) {
      snapshot.begin_round();
      ASSERT_TRUE(snapshot.page(page.first, page.second));
      ++read_;
      for (unsigned cpu = 0; cpu < 3; ++cpu) snapshot.drained(cpu);
      broken = !snapshot.end_round();
      largest_ = std::max(largest_, snapshot.held_bytes());
      if (broken) break;  // as the recorder does
    }
    EXPECT_EQ(snapshot.finish().has_value(), written <= room_);
    if (broken) {
      EXPECT_EQ(written, room_ + 1) << "the sink was given more after its error";
    }
    facts_ = snapshot.facts();
    for (unsigned cpu = 0; cpu < 3; ++cpu) unwritten_pages_ += snapshot.unwritten_pages(cpu);
  }
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> exits_kept() const {
    const test::TemporaryFolder folder;
    const std::string file = folder / "trace.dat";
    testing::write_trace_dat(data_path("box/demo-v6.dat"), file, kept_);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> exits;
    auto source = trace_dat::open_trace_dat(file, {});
    EXPECT_TRUE(source) << source.error().message;
    if (!source) return {};
    Names names;
    VmmEventReader reader(names);
    ExitModel model;
    Threads threads(nullptr);
    ExitTracker tracker(model, reader);
    for (Event event; (*source)->next(event) == Read::kEvent;) {
      if (const ExitSpan* span = tracker.on(event, threads.on(event))) {
        exits.emplace_back(span->start.ns(), span->end.ns());
      }
    }
    return exits;
  }

  SnapshotFacts facts_;
  std::vector<std::vector<Bytes>> kept_;
  std::size_t room_ = ~std::size_t{0};  // pages that the sink takes
  std::size_t largest_ = 0;             // bytes held after a round
  std::uint64_t read_ = 0, unwritten_pages_ = 0;

 private:
  void add(std::uint64_t time, unsigned cpu, std::int32_t thread, std::string bytes) {
    std::memcpy(bytes.data() + 4, &thread, sizeof thread);  // common_pid
    Bytes page(4096);
    const std::uint64_t commit = 4 + bytes.size();
    const auto header = static_cast<std::uint32_t>(bytes.size() / 4);
    std::memcpy(page.data(), &time, 8);
    std::memcpy(page.data() + 8, &commit, 8);
    std::memcpy(page.data() + 16, &header, 4);
    std::memcpy(page.data() + 20, bytes.data(), bytes.size());
    pages_.emplace(time, std::pair(cpu, page));
  }

  testing::RecordedPages recorded_;
  kernel_events::Formats formats_;
  std::string entry_, to_user_;
  std::map<std::string, std::string> samples_;  // a kvm_exit of each reason
  std::map<std::uint64_t, std::pair<unsigned, Bytes>> pages_;
};

TEST_F(SnapshotTest, NoExitIsPairedAcrossWhatWasLeftOut) {
  exit(1000, 0, kA, "io");
  entry(2000, 0, kA);
  exit(2050, 0, kA, "cpuid");  // its entry is left out, on a CPU of its own
  entry(2300, 1, kA);
  exit(2400, 1, kA, "cpuid");
  exit(5000, 2, kB, "io");
  entry(5500, 2, kA);
  entry(6000, 2, kB);
  cut("exit(io) > 500ns", 100);
  EXPECT_EQ(facts_.hits, 2u);
  EXPECT_EQ(facts_.left_out_events, 2u);
  EXPECT_THAT(exits_kept(), ElementsAre(std::pair(1000, 2000), std::pair(5000, 6000)));
}

TEST_F(SnapshotTest, AHitThatEndsOnACpuThatWasIdleIsInTheReport) {
  exit(100, 1, kB, "cpuid");
  entry(150, 1, kB);
  exit(5000, 0, kA, "io");
  entry(6000, 1, kA);  // the first event of CPU 1 for long
  exit(9000, 0, kB, "cpuid");
  entry(9001, 0, kB);
  cut("exit > 500ns", 200);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_THAT(exits_kept(), ElementsAre(std::pair(5000, 6000)));
}

TEST_F(SnapshotTest, HaltsCountOnlyByName) {
  halt(1000, 0, kA);
  entry(9000, 0, kA);
  cut("exit > 500ns", 100);
  EXPECT_EQ(facts_.hits, 0u);
  EXPECT_EQ(facts_.left_out_events, 2u);
  cut("exit(hlt) > 500ns", 100);
  EXPECT_EQ(facts_.hits, 1u);
}

TEST_F(SnapshotTest, AnExitThatIsStillOpenCountsUnlessItsThreadIsDead) {
  exit(1000, 0, kA, "io");
  exit(1100, 1, kB, "io");
  exit(8000, 2, 13, "io");
  cut("exit > 500ns", 100);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_TRUE(facts_.first_hits.back().open);
  EXPECT_EQ(facts_.longest->tid, kA);
}

TEST_F(SnapshotTest, WhatADiskThatFillsUpLosesOfTheRingIsCounted) {
  busy(100, 20'000, 100, 2);
  exit(10'050, 0, kA, "io");
  entry(15'050, 0, kA);
  room_ = 20;  // inside the window
  cut("exit(io) > 500ns", 3000);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_GT(facts_.kept_events, 0u);
  EXPECT_GT(facts_.unwritten_events, 30u);
  EXPECT_EQ(unwritten_pages_, facts_.unwritten_events);  // one event to a page
  EXPECT_EQ(facts_.kept_events + facts_.left_out_events + facts_.unwritten_events, read_);
  std::uint64_t kept = 0;
  for (const auto& cpu : kept_) {
    for (const Bytes& page : cpu) kept += look_at_page(page)->events;
  }
  EXPECT_EQ(facts_.kept_events, kept);
}

TEST_F(SnapshotTest, ALongExitIsWrittenWhileItGoesOn) {
  busy(100, 40 * kSecond, kSecond / 20, 2);
  exit(5 * kSecond + 1, 0, kA, "io");
  entry(35 * kSecond + 1, 1, kA);
  cut("exit > 1ms", kSecond / 10);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_EQ(facts_.shortened, 0u);
  EXPECT_THAT(facts_.first_windows,
              ElementsAre(Window{5 * kSecond + 1 - kSecond / 10, 35 * kSecond + 1 + kSecond / 10}));
  EXPECT_THAT(exits_kept(), ::testing::Contains(std::pair(5 * kSecond + 1, 35 * kSecond + 1)));
  // A second and a tenth of forty events a second, not thirty of them.
  EXPECT_LT(largest_, 60u * 300u);
}

TEST_F(SnapshotTest, OfAnExitThatDoesNotEndTheMiddleIsLeftOut) {
  busy(100, 200 * kSecond, kSecond, 2);
  exit(5 * kSecond + 1, 0, kA, "io");
  entry(150 * kSecond + 1, 0, kA);
  cut("exit > 1ms", 2 * kSecond);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_EQ(facts_.shortened, 1u);
  EXPECT_EQ(facts_.longest->ns, 145 * kSecond);
  ASSERT_EQ(facts_.windows, 2u);
  EXPECT_EQ(facts_.first_windows[0], (Window{3 * kSecond + 1, 67 * kSecond + 1}));
  EXPECT_GE(facts_.first_windows[1].from_ns, 147 * kSecond);
  EXPECT_EQ(facts_.first_windows[1].to_ns, 152 * kSecond + 1);
}

TEST_F(SnapshotTest, AThreadThatDiesInAnExitHoldsNothingBack) {
  exit(1000, 0, kB, "io");
  busy(2000, 20 * kSecond, kSecond / 50, 2);
  cut("exit > 15s", kSecond / 10);
  EXPECT_EQ(facts_.hits, 0u);
  EXPECT_EQ(facts_.kept_events, 0u);
  EXPECT_LT(largest_, 20u * 300u);
}

TEST_F(SnapshotTest, WhatMayBeAHitNearALossIsKept) {
  exit(1000, 0, kA, "io");
  busy(1500, 5500, 500, 2);
  entry(5050, 0, kA);  // of that exit, or of one after it
  lost_before(5050);
  exit(20'000, 1, kBusy, "cpuid");
  cut("exit > 500ns", 100);
  EXPECT_EQ(facts_.hits, 1u);
  EXPECT_EQ(facts_.near_loss, 1u);
  EXPECT_THAT(facts_.first_windows, ElementsAre(Window{900, 5150}));
  EXPECT_THAT(exits_kept(), ::testing::Not(::testing::Contains(std::pair(1000, 5050))));
}

TEST_F(SnapshotTest, RefusesAReasonThatTheKernelDoesNotHave) {
  testing::RecordedPages recorded(data_path("box/demo-v6.dat"));
  const auto watch =
      TriggerMatcher::open(*parse_trigger("exit(IO_INSTRUCTIONS) > 1us"), recorded.formats());
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(watch.error().message,
              ::testing::HasSubstr("column 6: this kernel has no such reason; did you mean "
                                   "IO_INSTRUCTION?"));
}

}  // namespace
}  // namespace trapline::record
