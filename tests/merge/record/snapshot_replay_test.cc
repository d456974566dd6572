// Real recordings, cut around their slowest exits: what is kept is what lies in the windows, event
// by event, and every reader sees the holes.
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>
#include <set>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/stall_tracker.h"
#include "tests/merge/record/replay.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

using testing::Bytes;
using testing::Recorded;
using testing::RecordedPages;
using trapline::test::data_path;
using trapline::test::output_of;

constexpr std::uint64_t kAround = 3'000'000;
constexpr std::size_t kHits = 6;

using SpanKey = std::tuple<std::uint64_t, std::uint64_t, ThreadId>;

// The exits of a trace.dat, as the report finds them.
struct Exits {
  std::vector<ExitSpan> spans;
  ExitCounters counters;
  std::uint64_t gaps = 0, events = 0;

  explicit Exits(const std::string& path) {
    auto opened = trace_dat::open_trace_dat(path, {});
    EXPECT_TRUE(opened) << opened.error().message;
    if (!opened) return;
    Source& source = **opened;
    Names names;
    VmmEventReader reader(names);
    Threads threads(nullptr);
    ExitTracker tracker(choose_exit_model(source.capabilities()), reader);
    for (Event event; source.next(event) == Read::kEvent;) {
      if (const ExitSpan* span = tracker.on(event, threads.on(event))) spans.push_back(*span);
    }
    while (const ExitSpan* span = tracker.finish()) spans.push_back(*span);
    EXPECT_TRUE(source.status());
    counters = tracker.counters();
    gaps = source.counters().gaps + source.counters().left_out_pieces;
    events = source.counters().events;
  }
  // So that kHits exits are longer.
  [[nodiscard]] std::uint64_t limit() const {
    std::vector<std::uint64_t> totals;
    for (const ExitSpan& span : spans) {
      if (!span.halt) totals.push_back(span.total());
    }
    std::sort(totals.rbegin(), totals.rend());
    return totals.at(kHits);
  }
  [[nodiscard]] std::set<SpanKey> longer_than(std::uint64_t limit) const {
    std::set<SpanKey> keys;
    for (const ExitSpan& span : spans) {
      if (span.halt || span.total() <= limit) continue;
      keys.insert({span.start.ns(), span.end.ns(), span.thread});
    }
    return keys;
  }
  [[nodiscard]] std::set<SpanKey> all() const {
    std::set<SpanKey> keys;
    for (const ExitSpan& span : spans) {
      keys.insert({span.start.ns(), span.end.ns(), span.thread});
    }
    return keys;
  }
};

struct Cut {
  std::vector<std::vector<Bytes>> pages;
  SnapshotFacts facts;
  std::size_t largest = 0;

  Cut(const RecordedPages& recorded, const std::string& trigger, std::size_t ring_bytes,
      std::uint64_t step, unsigned burst)
      : pages(recorded.cpus()) {
    auto watch = TriggerMatcher::open(*parse_trigger(trigger), recorded.formats());
    EXPECT_TRUE(watch) << watch.error().message;
    Snapshot snapshot(
        {kAround, ring_bytes, 4096, recorded.cpus()}, std::move(*watch),
        [](ThreadId) { return true; },
        [this](unsigned cpu, std::span<const std::byte> page) {
          pages[cpu].emplace_back(page.begin(), page.end());
          return Result<void>();
        });
    testing::Replay replay(recorded, step, burst);
    const auto done = replay.into(snapshot);
    EXPECT_TRUE(done) << done.error().message;
    facts = snapshot.facts();
    largest = replay.largest;
  }
  [[nodiscard]] std::set<SpanKey> hits() const {
    std::set<SpanKey> keys;
    for (const SessionHit& hit : facts.first_hits) {
      if (!hit.open && !hit.near_loss)
        keys.insert({hit.at_ns, hit.at_ns + hit.ns, ThreadId{hit.tid}});
    }
    return keys;
  }
  [[nodiscard]] std::vector<std::vector<Recorded>> events() const {
    std::vector<std::vector<Recorded>> events(pages.size());
    for (std::size_t cpu = 0; cpu < pages.size(); ++cpu) {
      for (const Bytes& page : pages[cpu]) (void)testing::append_events(page, events[cpu]);
    }
    return events;
  }
  // What trace-cmd sees: marked pages with events. What Trapline sees: those that tell anew, and
  // the empty ones.
  struct Holes {
    std::size_t trace_cmd = 0, trapline = 0;
  };
  [[nodiscard]] Holes holes() const {
    Holes holes;
    for (const auto& cpu : pages) {
      bool told = false;
      for (const Bytes& page : cpu) {
        std::vector<Recorded> events;
        const bool marked = testing::append_events(page, events);
        if (marked && !told) ++holes.trapline;
        if (marked && !events.empty()) ++holes.trace_cmd;
        told = marked && events.empty();
      }
    }
    return holes;
  }
};

std::vector<std::vector<Recorded>> inside(std::vector<std::vector<Recorded>> events,
                                          const std::vector<Window>& windows) {
  for (auto& cpu : events) {
    std::erase_if(cpu, [&](const Recorded& event) {
      return std::none_of(windows.begin(), windows.end(), [&](const Window& window) {
        return event.time >= window.from_ns && event.time <= window.to_ns;
      });
    });
  }
  return events;
}

// Where the two differ first; empty when they do not.
std::string difference(const std::vector<std::vector<Recorded>>& kept,
                       const std::vector<std::vector<Recorded>>& wanted) {
  for (std::size_t cpu = 0; cpu < kept.size(); ++cpu) {
    const auto [a, b] =
        std::mismatch(kept[cpu].begin(), kept[cpu].end(), wanted[cpu].begin(), wanted[cpu].end());
    if (a == kept[cpu].end() && b == wanted[cpu].end()) continue;
    return fmt::format("CPU {}: event {} of {} kept and {} wanted: {} instead of {}", cpu,
                       a - kept[cpu].begin(), kept[cpu].size(), wanted[cpu].size(),
                       a == kept[cpu].end() ? 0 : a->time, b == wanted[cpu].end() ? 0 : b->time);
  }
  return {};
}

// Exits that are not among others.
std::string missing(const std::set<SpanKey>& exits, const std::set<SpanKey>& among) {
  std::string text;
  for (const auto& [start, end, thread] : exits) {
    if (among.contains({start, end, thread})) continue;
    text += fmt::format(" [{}, {}] of {}", start, end, static_cast<int>(thread));
  }
  return text;
}

std::vector<std::string> recordings_with_exits() {
  std::vector<std::string> names = trapline::test::recordings();
  // Nothing there has a duration, and cycles are no nanoseconds.
  const std::set<std::string> without{"box/no-kvm.dat", "box/demo-userspace-open.dat",
                                      "box/demo-tsc.dat", "box/demo-tsc2nsec.dat"};
  std::erase_if(names, [&](const std::string& name) { return without.contains(name); });
  return names;
}

class SnapshotReplayTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SnapshotReplayTest, KeepsTheWindowsAroundTheSlowestExitsAndNothingElse) {
  const std::string path = data_path(GetParam());
  const RecordedPages recorded(path);
  const Exits whole(path);
  const std::string trigger = fmt::format("exit > {}ns", whole.limit());
  const Cut cut(recorded, trigger, 64u << 20, 7'000'000, 3);

  const std::set<SpanKey> slow = whole.longer_than(whole.limit());
  EXPECT_EQ(missing(cut.hits(), whole.all()), "") << "hits that are no exits";
  if (whole.gaps == 0) {
    EXPECT_EQ(missing(slow, cut.hits()), "");
    EXPECT_EQ(missing(cut.hits(), slow), "");
  } else {
    // A hole of the kernel's own is known when the next page comes, later than the report knows it:
    // an exit near it may be taken for one that it hides. But what is slow is kept.
    for (const auto& [start, end, thread] : slow) {
      const auto& windows = cut.facts.first_windows;
      EXPECT_TRUE(std::any_of(windows.begin(), windows.end(),
                              [from = start, to = end](const Window& window) {
                                return window.from_ns <= from && window.to_ns >= to;
                              }))
          << fmt::format("[{}, {}] of {} is not kept", start, end, static_cast<int>(thread));
    }
  }
  EXPECT_EQ(cut.facts.shortened, 0u);
  Windows expected;
  for (const SessionHit& hit : cut.facts.first_hits) {
    expected.add({hit.at_ns > kAround ? hit.at_ns - kAround : 0, hit.at_ns + hit.ns + kAround});
  }
  EXPECT_EQ(cut.facts.first_windows, expected.all());

  EXPECT_EQ(difference(cut.events(), inside(recorded.events(), expected.all())), "");
  EXPECT_GT(cut.facts.left_out_events, cut.facts.kept_events / 10) << "a test of nothing";

  const test::TemporaryFolder folder;
  const std::string file = folder / "trace.dat";
  ASSERT_NO_FATAL_FAILURE(testing::write_trace_dat(path, file, cut.pages));
  const Exits ours(file);
  EXPECT_EQ(ours.gaps, cut.holes().trapline);
  // Every exit is one of the whole recording, and the slow ones are all there.
  EXPECT_EQ(missing(ours.all(), whole.all()), "");
  EXPECT_EQ(missing(cut.hits(), ours.all()), "");
  EXPECT_EQ(ours.events, cut.facts.kept_events);

  const std::string text = output_of("trace-cmd report -N -t " + file + " 2>/dev/null");
  const std::regex dropped("CPU:[0-9]+ \\[([0-9]+ )?EVENTS DROPPED\\]");
  std::size_t holes = 0, lines = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, dropped)) {
      ++holes;
    } else {
      if (line.find("] ") != std::string::npos) ++lines;
    }
  }
  EXPECT_EQ(holes, cut.holes().trace_cmd);
  EXPECT_GT(holes, 0u);
  EXPECT_EQ(lines, cut.facts.kept_events);
}

TEST_P(SnapshotReplayTest, TheReportOfTheCutFileIsWhatTheOracleFinds) {
  const std::string path = data_path(GetParam());
  const RecordedPages recorded(path);
  // trace-cmd passes over empty pages: a CPU's hole ends for it at the next event. With one CPU
  // that is the same.
  if (recorded.cpus() > 1) return;
  const Exits whole(path);
  const Cut cut(recorded, fmt::format("exit > {}ns", whole.limit()), 64u << 20, 1'000'000'000, 2);
  const test::TemporaryFolder folder;
  const std::string file = folder / "trace.dat";
  ASSERT_NO_FATAL_FAILURE(
      testing::write_trace_dat(path, file, testing::without_boundaries(cut.pages), "3.1.6"));
  (void)output_of("python3 " TRAPLINE_SOURCE_DIR
                  "/tests/merge/oracles.py --oracle report " TRAPLINE_BINARY_DIR
                  "/merge/trapline " +
                  file + " >/dev/null");
}

TEST_P(SnapshotReplayTest, HoldsNoMoreThanItsRing) {
  constexpr std::size_t kRing = 128u << 10;
  const std::string path = data_path(GetParam());
  const RecordedPages recorded(path);
  const Exits whole(path);
  const Cut cut(recorded, fmt::format("exit > {}ns", whole.limit()), kRing, 50'000'000, 1000);
  EXPECT_LE(cut.largest, kRing);
  // The windows may be shorter; inside them nothing is missing all the same.
  EXPECT_EQ(difference(cut.events(), inside(recorded.events(), cut.facts.first_windows)), "");
  const test::TemporaryFolder folder;
  const std::string file = folder / "trace.dat";
  ASSERT_NO_FATAL_FAILURE(testing::write_trace_dat(path, file, cut.pages));
  EXPECT_EQ(missing(Exits(file).all(), whole.all()), "");
}

// The vCPUs' stalls of a recording, as `trapline stalls` finds them.
struct Stalls : SpanSink {
  Stalls(const std::string& path, std::uint64_t limit) {
    auto source = trace_dat::open_trace_dat(path, {});
    EXPECT_TRUE(source) << source.error().message;
    PipelineOptions how;
    how.model = choose_exit_model((*source)->capabilities());
    how.stalls_ns = limit + 1;
    Pipeline pipeline(std::move(how), {this});
    for (Event event; (*source)->next(event) == Read::kEvent;) (void)pipeline.push(event);
    pipeline.finish();
  }
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kStalls; }
  void stall(const Stall& stall, const Pipeline&) override {
    if (stall.vcpus == 0) keys.insert({stall.begin.ns(), stall.end.ns(), stall.thread});
  }
  std::set<SpanKey> keys;
};

class StallReplayTest : public ::testing::TestWithParam<std::pair<const char*, std::uint64_t>> {};

TEST_P(StallReplayTest, HitsAreTheStallsAndCertainBeforeTheyEnd) {
  const auto& [name, limit] = GetParam();
  const std::string path = std::string(TRAPLINE_SOURCE_DIR "/tests/merge/planted/") + name;
  const Stalls stalls(path, limit);
  const RecordedPages recorded(path);
  const Cut cut(recorded, fmt::format("stall > {}ns", limit), 64u << 20, 1'000'000, 3);
  EXPECT_EQ(missing(cut.hits(), stalls.keys), "") << "hits that are no stalls";
  EXPECT_EQ(missing(stalls.keys, cut.hits()), "");
  EXPECT_FALSE(stalls.keys.empty());
  // Each lasts longer than two rounds more than the limit.
  EXPECT_EQ(cut.facts.certain, stalls.keys.size());
  EXPECT_GT(cut.facts.left_out_events, 0u);
}

INSTANTIATE_TEST_SUITE_P(Planted, StallReplayTest,
                         ::testing::Values(std::pair{"stop.dat", 100'000'000},
                                           std::pair{"uffd.dat", 55'000'000},
                                           std::pair{"migrate.dat", 40'000'000}),
                         [](const auto& test) {
                           const std::string name(test.param.first);
                           return name.substr(0, name.find('.'));
                         });

INSTANTIATE_TEST_SUITE_P(Recordings, SnapshotReplayTest,
                         ::testing::ValuesIn(recordings_with_exits()), trapline::test::test_name);

}  // namespace
}  // namespace trapline::record
