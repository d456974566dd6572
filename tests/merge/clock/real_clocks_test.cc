// The clocks of this machine: markers in instances on every clock that ftrace has, related through
// their sync records, and held against what is known otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/timex.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "backend_ftrace/include/trapline/ftrace.h"
#include "merge/clock/alignment.h"
#include "tests/support/instance.h"
#include "tests/support/require.h"

namespace trapline::clocks {
namespace {

using test::Instance;

struct Recorded {
  std::vector<SyncEntry> syncs;
  // Markers whose text is a reading of mono just before they were written, with their stamps.
  struct CollectedEvidence {
    std::uint64_t stamp, before, real, after;  // before and after on mono
  };
  std::vector<CollectedEvidence> known;
};

// `series` sync series, `pause` apart, and known markers in between.
Recorded record(const std::string& clock, int series, unsigned pause_us) {
  Recorded recorded;
  Instance instance;
  if (!instance.set("trace_clock", clock)) return recorded;
  instance.set("tracing_on", "1");
  const trapline_ftrace_options options{instance.name().c_str(), nullptr};
  char error[512];
  trapline_ftrace* marker = trapline_ftrace_open(&options, error, sizeof error);
  EXPECT_NE(marker, nullptr) << error;
  if (marker == nullptr) return recorded;
  for (int i = 0; i < series; ++i) {
    EXPECT_EQ(trapline_ftrace_sync(marker, kSyncTries), 0);
    for (int k = 0; k < 4; ++k) {
      ::usleep(pause_us / 4);
      const std::uint64_t before = read_clock(ClockId::kMono);
      const std::uint64_t real = read_clock(ClockId::kReal);
      trapline_ftrace_printf(marker, "known %llu", static_cast<unsigned long long>(before));
      recorded.known.push_back({0, before, real, read_clock(ClockId::kMono)});
    }
  }
  EXPECT_EQ(trapline_ftrace_sync(marker, kSyncTries), 0);
  trapline_ftrace_close(marker);
  SyncGatherer gatherer;
  std::size_t next = 0;
  for (const test::MarkerText& text : instance.markers()) {
    if (const auto sync = parse_sync(text.text)) gatherer.add(*sync, text.stamp);
    if (text.text.starts_with("known ") && next < recorded.known.size()) {
      recorded.known[next++].stamp = text.stamp;
    }
  }
  EXPECT_EQ(next, recorded.known.size());
  recorded.syncs = gatherer.take();
  return recorded;
}

// A recording as if it were on mono, which is the first clock that is read after the marker, and a
// source on `clock` that has no records of its own.
std::vector<SourceClock> mono_and(std::string_view clock, std::vector<SyncEntry> syncs) {
  for (SyncEntry& entry : syncs) entry.point.stamp = entry.point.after.at(ClockId::kMono);
  std::vector<SourceClock> sources(2);
  sources[0].path = "trace.dat";
  sources[0].clock = "mono";
  sources[0].syncs = std::move(syncs);
  sources[1].path = "qemu.log";
  sources[0].boot.id = sources[1].boot.id = "this one";
  sources[1].clock = clock;
  return sources;
}

// A stall of the machine between two readings widens what they say: of so many recordings one must
// have a small error, and each the truth inside its own.
constexpr int kMostRecordings = 5;

// Records on `clock`, with the error that is printed for it in `error`.
void expect_known_markers_inside(const std::string& name, std::uint64_t& error) {
  const Recorded recorded = record(name, 4, 400'000);
  ASSERT_GE(recorded.syncs.size(), 50u);
  std::vector<SourceClock> sources(2);
  sources[0].path = "timeline";
  sources[0].clock = "mono";
  sources[1].path = "trace.dat";
  sources[0].boot.id = sources[1].boot.id = "this one";
  sources[1].clock = name;
  sources[1].cycles = name == "x86-tsc";
  sources[1].syncs = recorded.syncs;
  sources[1].interval = Interval{recorded.known.front().stamp, recorded.known.back().stamp};
  const auto related = align(sources);
  ASSERT_TRUE(related) << related.error().message;
  const AlignedSource& found = related->sources[1];
  error = found.error_ns.value();
  std::printf("[ figures  ] %s: error %llu ns, offset %lld ns, %zu brackets\n", name.c_str(),
              static_cast<unsigned long long>(error), static_cast<long long>(found.offset_ns),
              recorded.syncs.size());
  for (const std::string& note : found.notes) std::printf("[ note     ] %s\n", note.c_str());
  // Each known marker was written between its two readings of mono.
  for (const Recorded::CollectedEvidence& known : recorded.known) {
    const std::uint64_t at = found.map(known.stamp);
    EXPECT_GE(at + error, known.before);
    EXPECT_LE(at, known.after + error);
  }
}

class RealClock : public ::testing::TestWithParam<const char*> {};

TEST_P(RealClock, IsRelatedToMonoWithAllKnownMarkersInsideTheBound) {
  TRAPLINE_REQUIRE(Instance::usable(), "needs root and tracefs");
  const std::string name = GetParam();
  {
    Instance instance;
    TRAPLINE_REQUIRE(instance.set("trace_clock", name), "needs the trace clock " + name);
  }
  // uptime counts hundredths of a second.
  const std::uint64_t most = name == "uptime" ? 25'000'000u : 5000u;
  std::uint64_t error = most;
  for (int i = 0; i < kMostRecordings && error >= most; ++i) {
    ASSERT_NO_FATAL_FAILURE(expect_known_markers_inside(name, error));
  }
  EXPECT_LT(error, most);
}
constexpr const char* kTraceClocks[] = {
    "local",   "global", "perf", "uptime", "mono", "mono_raw", "boot", "tai",
#if defined(__x86_64__)
    "x86-tsc",
#endif
};
INSTANTIATE_TEST_SUITE_P(Every, RealClock, ::testing::ValuesIn(kTraceClocks), [](const auto& test) {
  std::string name = test.param;
  if (name == "x86-tsc") name = "tsc";
  return name;
});

// mono, mono_raw, boot and tai are stamped with the very clock that user space reads: what the
// records of a `local` instance say of them must agree with clock_gettime.
TEST(RealClocks, ReadableOnesAgreeWithClockGettimeThroughAnInstanceOnLocal) {
  TRAPLINE_REQUIRE(Instance::usable(), "needs root and tracefs");
  constexpr std::uint64_t kMostError = 5000, kSlack = 5000, kMoment = 1'000'000'000;
  bool stalled = true;
  for (int left = kMostRecordings; stalled && left > 0; --left) {
    stalled = false;
    const Recorded recorded = record("local", 5, 400'000);
    ASSERT_GE(recorded.syncs.size(), 50u);
    const std::uint64_t end = recorded.syncs.back().point.after.at(ClockId::kMono);
    for (const ClockId clock : {ClockId::kMonoRaw, ClockId::kBoot, ClockId::kTai, ClockId::kReal}) {
      const auto related = align(mono_and(clock_name(clock), recorded.syncs));
      ASSERT_TRUE(related) << related.error().message;
      const AlignedSource& found = related->sources[1];
      // Readings right now, a moment after the recording: the drift's uncertainty grows a little.
      const std::uint64_t before = read_clock(ClockId::kMono);
      const std::uint64_t reading = read_clock(clock);
      const std::uint64_t after = read_clock(ClockId::kMono);
      const std::uint64_t error = found.error_ns.value();
      stalled = stalled || error >= kMostError || before - end >= kMoment;
      if (stalled && left > 1) break;
      EXPECT_LT(error, kMostError) << clock_name(clock);
      EXPECT_GE(found.map(reading) + error + kSlack, before) << clock_name(clock);
      EXPECT_LE(found.map(reading), after + error + kSlack) << clock_name(clock);
    }
  }
}

// The kernel's adjustment of its clocks, as it was again at the end.
class Adjusting {
 public:
  Adjusting() { may_ = ::adjtimex(&was_) >= 0 && freq(0); }
  ~Adjusting() {
    struct timex single {};
    single.modes = ADJ_OFFSET_SINGLESHOT;
    (void)::adjtimex(&single);
    struct timex again {};
    again.modes = ADJ_FREQUENCY | ADJ_TICK;
    again.freq = was_.freq;
    again.tick = was_.tick;
    (void)::adjtimex(&again);
  }
  [[nodiscard]] bool may() const { return may_; }
  bool freq(double ppm) { return set(ADJ_FREQUENCY, &timex::freq, std::lround(ppm * 65536)); }
  bool tick(long us) { return set(ADJ_TICK, &timex::tick, us); }
  bool single(long us) { return set(ADJ_OFFSET_SINGLESHOT, &timex::offset, us); }

 private:
  static bool set(unsigned modes, long timex::*field, long value) {
    struct timex now {};
    now.modes = modes;
    now.*field = value;
    return ::adjtimex(&now) >= 0;
  }
  struct timex was_ {};
  bool may_ = false;
};

// A daemon of the tester's choice, chronyd for one, told to correct the clock as fast as it does.
int let_daemon_slew() {
  const char* command = std::getenv("TRAPLINE_SLEW_COMMAND");
  return command != nullptr ? std::system(command) : 0;
}

struct Slew {
  const char* name;
  // What is done to the clock, again and again, between pauses of this length.
  std::function<void(Adjusting&, unsigned turn)> turn;
  unsigned pause_us;
  std::optional<double> rate_change_ppm;
};

// mono is slewed as ntpd, chrony and adjtime(3) do, and as far as the kernel lets them, while it is
// recorded on local: each marker between two readings of mono is inside the printed error, or the
// recording is refused. The test changes the machine's clock for some seconds, so CI doesn't
// require it: other tests and other users of the machine read that clock.
TEST(RealClocks, SlewedAsFarAsTheKernelDoesTheTruthIsInsideTheErrorOrItIsRefused) {
  TRAPLINE_REQUIRE(Instance::usable(), "needs root and tracefs");
  if (std::getenv("TRAPLINE_MAY_SLEW_CLOCKS") == nullptr)
    GTEST_SKIP() << "TRAPLINE_MAY_SLEW_CLOCKS is not set: the test slews this machine's clock";
  const Slew slews[] = {
      {"steady", [](Adjusting&, unsigned) {}, 100'000, {}},
      {"ntpd, 2 ppm a second", [](Adjusting& a, unsigned i) { a.freq(2.0 * i / 10); }, 100'000, {}},
      {"chrony, 80 ppm once",
       [](Adjusting& a, unsigned i) { a.freq(i < 9 ? 0 : 80); },
       100'000,
       {}},
      {"500 ppm up and down",
       [](Adjusting& a, unsigned i) { a.freq(i % 2 ? -500 : 500); },
       700'000,
       {}},
      {"500 ppm, said", [](Adjusting& a, unsigned i) { a.freq(i % 2 ? -500 : 500); }, 700'000,
       1100},
      {"adjtime, 1 ms", [](Adjusting& a, unsigned i) { a.single(i == 5 ? 1000 : 0); }, 100'000, {}},
      {"adjtime, said", [](Adjusting& a, unsigned i) { a.single(i == 5 ? 1000 : 0); }, 100'000,
       600},
      {"tick, 10 %",
       [](Adjusting& a, unsigned i) { a.tick(i % 8 < 4 ? 10'000 : 11'000); },
       100'000,
       {}},
      {"tick, said", [](Adjusting& a, unsigned i) { a.tick(i % 8 < 4 ? 10'000 : 10'003); }, 100'000,
       400},
      {"back and forth within a second",
       [](Adjusting& a, unsigned i) { a.freq(i % 2 ? 90 : 0); },
       130'000,
       {}},
      {"a daemon", [](Adjusting&, unsigned i) { i == 8 ? let_daemon_slew() : 0; }, 100'000, {}},
  };
  int aligned_ones = 0, refused_ones = 0;
  for (const Slew& slew : slews) {
    Recorded recorded;
    {
      Adjusting adjusting;
      TRAPLINE_REQUIRE(adjusting.may(), "needs CAP_SYS_TIME");
      std::atomic<bool> done = false;
      std::thread slewing([&] {
        for (unsigned turn = 0; !done; ++turn) {
          slew.turn(adjusting, turn);
          ::usleep(slew.pause_us);
        }
      });
      recorded = record("local", 5, 500'000);
      done = true;
      slewing.join();
    }
    std::vector<SourceClock> sources(2);
    sources[0].path = "timeline";
    sources[0].clock = "mono";
    sources[1].path = "trace.dat";
    sources[1].clock = "local";
    sources[0].boot.id = sources[1].boot.id = "this one";
    sources[1].syncs = recorded.syncs;
    const auto related = align(sources, {slew.rate_change_ppm});
    if (!related) {
      ++refused_ones;
      std::printf("[ refused  ] %s: %s\n", slew.name, related.error().message.c_str());
      continue;
    }
    ++aligned_ones;
    const AlignedSource& found = related->sources[1];
    std::uint64_t off = 0;
    for (const Recorded::CollectedEvidence& known : recorded.known) {
      const std::uint64_t at = found.map(known.stamp);
      off = std::max({off, known.before > at ? known.before - at : 0,
                      at > known.after ? at - known.after : 0});
    }
    std::printf("[ figures  ] %s: off by at least %llu ns, error %llu ns, %.3g ppm assumed\n",
                slew.name, static_cast<unsigned long long>(off),
                static_cast<unsigned long long>(*found.error_ns), *found.rate_change_ppm);
    EXPECT_LE(off, *found.error_ns) << slew.name;
    EXPECT_FALSE(std::string_view(slew.name).starts_with("500 ppm up"))
        << "it cannot be told apart";
  }
  EXPECT_GE(aligned_ones, 3);
  EXPECT_GE(refused_ones, 2);
}

// As `date -s` and a daemon's makestep do: the readings of `real` lie between two of mono, and a
// source on it is placed within its printed error, or refused. The test sets the machine's clock,
// so CI doesn't require it either.
TEST(RealClocks, OfAWallClockThatIsSetTheTruthIsInsideTheErrorOrItIsRefused) {
  TRAPLINE_REQUIRE(Instance::usable(), "needs root and tracefs");
  if (std::getenv("TRAPLINE_MAY_SLEW_CLOCKS") == nullptr)
    GTEST_SKIP() << "TRAPLINE_MAY_SLEW_CLOCKS is not set: the test sets this machine's clock";
  struct Step {
    std::int64_t ns;
    unsigned after_us;
  };
  const std::vector<std::vector<Step>> cases = {
      {},
      {{300'000'000, 900'000}},
      {{-2'000'000'000, 1'400'000}, {2'000'000'000, 100'000}},
      {{1'000'000, 300'000}, {-1'000'000, 1'000'000}},
      {{20'000, 900'000}},
      {{1'000'000'000, 5'000'000}},  // after the recording
  };
  const auto step = [](std::int64_t ns) {
    struct timespec now {};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const std::int64_t at = now.tv_sec * 1'000'000'000L + now.tv_nsec + ns;
    const struct timespec then = {at / 1'000'000'000, at % 1'000'000'000};
    return ::clock_settime(CLOCK_REALTIME, &then) == 0;
  };
  TRAPLINE_REQUIRE(step(0), "needs CAP_SYS_TIME");
  int refused = 0;
  for (const auto& steps : cases) {
    std::atomic<bool> done = false;
    std::int64_t moved = 0;
    std::thread setting([&] {
      for (const Step& one : steps) {
        for (unsigned waited = 0; waited < one.after_us && !done; waited += 10'000)
          ::usleep(10'000);
        if (done) return;
        step(one.ns);
        moved += one.ns;
      }
    });
    const Recorded recorded = record("local", 5, 500'000);
    done = true;
    setting.join();
    if (moved != 0) step(-moved);
    const auto related = align(mono_and("real", recorded.syncs));
    if (!related) {
      ++refused;
      std::printf("[ refused  ] %s\n", related.error().message.c_str());
      continue;
    }
    const AlignedSource& found = related->sources[1];
    for (const Recorded::CollectedEvidence& known : recorded.known) {
      const std::uint64_t at = found.map(known.real);
      EXPECT_GE(at + *found.error_ns, known.before) << steps.size();
      EXPECT_LE(at, known.after + *found.error_ns) << steps.size();
    }
  }
  EXPECT_EQ(refused, 4);
}

}  // namespace
}  // namespace trapline::clocks
