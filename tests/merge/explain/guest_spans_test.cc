#include "merge/explain/guest_spans.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

TEST(GuestSpanSpec, HasTwoEventsOrAFunction) {
  const auto fields = parse_guest_span("irq:irq_handler_entry:irq..irq_handler_exit:irq");
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->start, "irq:irq_handler_entry");
  EXPECT_EQ(fields->start_field, "irq");
  EXPECT_EQ(fields->end, "irq_handler_exit");
  const auto function = parse_guest_span("function:rtc_read");
  ASSERT_TRUE(function);
  EXPECT_EQ(function->function, "rtc_read");
  const auto plain = parse_guest_span("a..b");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->end, "b");
}

TEST(GuestSpanSpec, AMarkerTellsHowLongItsIntervalWas) {
  const auto spec = parse_guest_span("marker:hit latency threshold");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->marker, "hit latency threshold");
  EXPECT_EQ(told_length("hit latency threshold (105 > 100)\n", spec->marker), 105'000u);
  EXPECT_EQ(told_length("frame took 12 ms, frame 7", "frame took"), 12'000'000u);
  EXPECT_EQ(told_length("late by 300ns", "late by"), 300u);
  EXPECT_EQ(told_length("late by 3 steps", "late by"), 3'000u);
  EXPECT_EQ(told_length("late by 2s", "late by"), 2'000'000'000u);
}

TEST(GuestSpanSpec, AMarkerWithoutANumberTellsNothing) {
  EXPECT_EQ(told_length("late", "late"), std::nullopt);
  EXPECT_EQ(told_length("another 12", "late"), std::nullopt);
  EXPECT_EQ(told_length("late 99999999999999999999", "late"), std::nullopt);
  EXPECT_EQ(told_length("late 18446744073709551615", "late"), std::nullopt);
}

TEST(GuestSpanSpec, ErrorsSayWhatIsWrong) {
  for (const char* wrong : {"a", "a:x..b", "..b", "a..", "function:", "marker:"}) {
    const auto spec = parse_guest_span(wrong);
    ASSERT_FALSE(spec) << wrong;
    EXPECT_EQ(spec.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(spec.error().message, testing::StartsWith("--guest-span: "));
  }
}

ExitSpan exit_of(std::uint64_t begin, std::uint64_t end, std::span<const PartInterval> intervals) {
  ExitSpan exit;
  exit.thread = kVcpu0;
  exit.start = Timestamp(begin);
  exit.end = Timestamp(end);
  exit.intervals = intervals;
  return exit;
}

TEST(VcpuHistory, IsCutToTheTimeThatIsAskedFor) {
  VcpuHistory history;
  history.add(GuestRun{kVcpu0, 0, Timestamp(0), Timestamp(100)});
  const PartInterval parts[] = {{Part::kKernel, Timestamp(100), Timestamp(110)},
                                {Part::kPreempted, Timestamp(110), Timestamp(150)},
                                {Part::kKernel, Timestamp(150), Timestamp(160)}};
  const ProvenCulprit culprit({.kind = CulpritKind::kIdle}, EventRef(Event{}));
  const WaitShare waits[] = {{Part::kPreempted, culprit, Timestamp(110), Timestamp(150)}};
  history.add(exit_of(100, 160, parts), waits);
  EXPECT_EQ(history.known_until(kVcpu0), Timestamp(160));
  EXPECT_EQ(history.known_until(kVcpu1), std::nullopt);
  const auto pieces = history.between(kVcpu0, Timestamp(90), Timestamp(120));
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].part, std::nullopt);
  EXPECT_EQ(pieces[0].length(), 10u);
  EXPECT_EQ(pieces[1].part, Part::kKernel);
  EXPECT_EQ(pieces[2].part, Part::kPreempted);
  EXPECT_EQ(pieces[2].culprit.kind, CulpritKind::kIdle);
  EXPECT_EQ(pieces[2].length(), 10u);
}

TEST(VcpuHistory, TellsWhatEndedTheSleepsOfAHalt) {
  VcpuHistory history;
  const PartInterval parts[] = {{Part::kKernel, Timestamp(0), Timestamp(10)},
                                {Part::kHalted, Timestamp(10), Timestamp(60)},
                                {Part::kKernel, Timestamp(60), Timestamp(65)}};
  const ProvenCulprit timer({.kind = CulpritKind::kTimer}, EventRef(Event{}));
  const ProvenCulprit thread({.kind = CulpritKind::kThread}, EventRef(Event{}));
  const WaitShare halts[] = {{Part::kHalted, timer, Timestamp(20), Timestamp(30)},
                             {Part::kHalted, thread, Timestamp(35), Timestamp(60)}};
  history.add(exit_of(0, 65, parts), {}, halts);
  std::vector<std::pair<std::uint64_t, CulpritKind>> halted;
  for (const VcpuPiece& piece : history.between(kVcpu0, Timestamp(0), Timestamp(65))) {
    if (piece.part == Part::kHalted) halted.emplace_back(piece.length(), piece.culprit.kind);
  }
  const CulpritKind none = CulpritKind::kUnknown;  // it polls, or is awake in between
  EXPECT_EQ(halted,
            (std::vector<std::pair<std::uint64_t, CulpritKind>>{
                {10, none}, {10, CulpritKind::kTimer}, {5, none}, {25, CulpritKind::kThread}}));
}

TEST(VcpuHistory, ForgetsWhatWasLongestAgo) {
  VcpuHistory history;
  for (std::uint64_t at = 0; at < VcpuHistory::kMost + 5; ++at)
    history.add(GuestRun{kVcpu0, 0, Timestamp(10 * at), Timestamp(10 * at + 10)});
  const auto pieces = history.between(kVcpu0, Timestamp(0), Timestamp(60));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].begin, Timestamp(50));
}

// Thread 0 is idle on CPU 1 from 10 to 40, on CPU 2 from 20 to 30; thread 7 goes from one to the
// other.
TEST(GuestIntervals, TheIdleThreadOfEachCpuIsAnother) {
  const std::map<std::uint64_t, std::string> texts = {{10, "prev_pid=7 next_pid=0"},
                                                      {20, "prev_pid=8 next_pid=0"},
                                                      {30, "prev_pid=0 next_pid=7"},
                                                      {40, "prev_pid=0 next_pid=9"},
                                                      {50, "prev_pid=9 next_pid=7"}};
  GuestIntervals idle(
      *parse_guest_span("sched_switch:next_pid..sched_switch:prev_pid"),
      [](const Event&) { return std::string("sched:sched_switch"); },
      [&texts](const Event& event) { return texts.at(event.at.ns()); });
  for (const auto& [at, text] : texts) {
    Event event = make(at, at == 20 || at == 30 ? 2 : 1, kVcpu0, Other());
    event.machine = MachineId{1};
    idle.on(event);
  }
  idle.finish();
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> found;
  while (const auto one = idle.take_ended())
    found.emplace_back(one->what, one->begin.ns(), one->end.ns());
  EXPECT_THAT(found, testing::UnorderedElementsAre(std::tuple("prev_pid=0", 20, 30),
                                                   std::tuple("prev_pid=0", 10, 40),
                                                   std::tuple("prev_pid=9", 40, 50)));
}

}  // namespace
}  // namespace trapline::test
