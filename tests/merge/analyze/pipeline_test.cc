#include "merge/analyze/pipeline.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Keeps all that it is handed.
class Recorder : public SpanSink {
 public:
  explicit Recorder(SpanClass selected) : selected_(selected) {}
  [[nodiscard]] SpanClass selects() const override { return selected_; }
  void event(const Event& event, const Pipeline&) override { events.push_back(event.at.ns()); }
  void exit(const ExitSpan& exit, const Pipeline&) override { exits.push_back(exit.start.ns()); }
  void span(const Span& span, const Pipeline&) override { spans.push_back(span); }
  void begin(const Span& span, const Pipeline&) override { begins.push_back(span); }
  void flow(SpanId from, SpanId to, FlowKind kind) override { flows.push_back({from, to, kind}); }
  void lost(const Event&, const Lost& lost, const Pipeline&) override {
    losses.push_back(lost.count);
  }

  struct Flow {
    SpanId from, to;
    FlowKind kind;
  };
  std::vector<std::uint64_t> events, exits, losses;
  std::vector<Span> spans, begins;
  std::vector<Flow> flows;

 private:
  SpanClass selected_;
};

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() { options_.model.user_end = UserEnd::kIoctl; }

  Recorder& play(SpanClass selected, std::initializer_list<Event> events) {
    recorder_.emplace(selected);
    pipeline_.emplace(options_, std::vector<SpanSink*>{&*recorder_});
    for (const Event& event : events) {
      if (!pipeline_->push(event)) break;
    }
    pipeline_->finish();
    return *recorder_;
  }
  static std::vector<Span> of_kind(const Recorder& recorder, SpanKind kind) {
    std::vector<Span> some;
    for (const Span& span : recorder.spans) {
      if (span.kind == kind) some.push_back(span);
    }
    return some;
  }
  static Event call(std::uint64_t at, bool entry, std::uint32_t depth, std::string_view name) {
    return make(at, 0, kVcpu0, GuestCall{entry, 0, depth, 0x1000, name});
  }

  PipelineOptions options_;
  std::optional<Recorder> recorder_;
  std::optional<Pipeline> pipeline_;
};

TEST_F(PipelineTest, ASinkGetsWhatItSelectsAndNoMore) {
  const Recorder& exits = play(SpanClass::kExits, {exit(100), entry(150), exit(200), entry(280)});
  EXPECT_THAT(exits.exits, ElementsAre(100, 200));
  EXPECT_THAT(exits.events, IsEmpty());
  EXPECT_THAT(exits.spans, IsEmpty());
  const Recorder& events = play(SpanClass::kEvents, {exit(100), entry(150)});
  EXPECT_THAT(events.events, ElementsAre(100, 150));
  EXPECT_THAT(events.exits, IsEmpty());
  const Recorder& changes =
      play(SpanClass::kChanges, {exit(100), switch_out(110, false), switch_in(120), entry(150)});
  EXPECT_THAT(changes.events, ElementsAre(110, 120));
}

Event woken_by(ThreadId waker, std::uint64_t at,
               SchedWakeup::Context context = SchedWakeup::Context::kThread) {
  return make(at, 1, waker, SchedWakeup{kVcpu0, 1, true, context});
}

TEST_F(PipelineTest, AWakeupLeadsToThePartThatFollowsTheBlockedOne) {
  const Recorder& all = play(
      SpanClass::kSpans | SpanClass::kWakeups,
      {exit(100), switch_out(110, false), woken_by(kVcpu1, 150), woken_by(kVcpu1, 155),
       switch_in(160), switch_out(170, false),
       woken_by(kOtherThread, 180, SchedWakeup::Context::kInterrupt), switch_in(190), entry(200)});
  const auto wakeups = of_kind(all, SpanKind::kWakeup);
  // sched_wakeup after sched_waking is the same one.
  ASSERT_THAT(wakeups, SizeIs(2));
  EXPECT_EQ(wakeups[0].track.thread, kVcpu1);
  EXPECT_EQ(wakeups[0].number, static_cast<std::uint32_t>(kVcpu0));
  EXPECT_EQ(wakeups[1].track.thread, ThreadId{});  // an interrupt's
  ASSERT_THAT(all.flows, SizeIs(2));
  const auto parts = of_kind(all, SpanKind::kPart);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&](const Span& span) { return span.id == all.flows[i].to; });
    ASSERT_NE(part, parts.end());
    EXPECT_EQ(all.flows[i].from, wakeups[i].id);
    EXPECT_EQ(all.flows[i].kind, FlowKind::kWakeup);
    EXPECT_EQ(part->begin, wakeups[i].begin);
    EXPECT_EQ(part->part, Part::kPreempted);
  }
}

TEST_F(PipelineTest, AWakeupOutsideOfAnExitOrOfARunningThreadIsNone) {
  const Recorder& all =
      play(SpanClass::kSpans | SpanClass::kWakeups,
           {entry(90), woken_by(kVcpu1, 95), exit(100), woken_by(kVcpu1, 120), entry(200)});
  EXPECT_THAT(of_kind(all, SpanKind::kWakeup), IsEmpty());
  EXPECT_THAT(all.flows, IsEmpty());
}

TEST_F(PipelineTest, ARequestThatEndsBeforeItsExitIsConnectedAllTheSame) {
  const Recorder& all =
      play(SpanClass::kSpans | SpanClass::kRequests,
           {exit(100), port(105, 0xc000), to_user(110),
            marker(120, "virtio_queue_notify vdev 0x1 n 0 vq 0x2\n"),
            marker(130, "virtio_blk_handle_read vdev 0x1 req 0x3 sector 0 nsectors 8\n"),
            marker(140, "virtio_blk_req_complete vdev 0x1 req 0x3 status 0\n"), run_ioctl(150),
            entry(160)});
  const auto exits = of_kind(all, SpanKind::kExit), requests = of_kind(all, SpanKind::kRequest);
  ASSERT_THAT(exits, SizeIs(1));
  ASSERT_THAT(requests, SizeIs(1));
  ASSERT_THAT(all.flows, SizeIs(2));  // the other one is to the handler that served the exit
  EXPECT_EQ(all.flows[0].from, exits[0].id);
  EXPECT_EQ(all.flows[0].to, requests[0].id);
  EXPECT_EQ(all.flows[0].kind, FlowKind::kNotify);
}

TEST_F(PipelineTest, ARequestIsCutByItsWayThroughTheBlockLayer) {
  const auto block = [](std::uint64_t at, BlockStep step) {
    return make(at, 0, kVcpu0, BlockIo{step, true, false, 8 << 20, 8, 5000});
  };
  const Recorder& all =
      play(SpanClass::kSpans | SpanClass::kRequests,
           {exit(100), to_user(110),
            marker(130, "virtio_blk_handle_read vdev 0x1 req 0x3 sector 0 nsectors 8\n"),
            block(140, BlockStep::kQueued), block(145, BlockStep::kIssued),
            block(170, BlockStep::kCompleted),
            marker(180, "virtio_blk_req_complete vdev 0x1 req 0x3 status 0\n"), run_ioctl(190),
            entry(200)});
  const auto requests = of_kind(all, SpanKind::kRequest),
             stages = of_kind(all, SpanKind::kRequestStage);
  ASSERT_THAT(requests, SizeIs(1));
  std::vector<std::tuple<std::string_view, std::uint64_t, std::uint64_t>> seen;
  for (const Span& stage : stages) {
    EXPECT_EQ(stage.parent, requests[0].id);
    seen.emplace_back(kRequestStageNames[stage.number], stage.begin.ns(), stage.end.ns());
  }
  using Stage = decltype(seen)::value_type;
  EXPECT_THAT(seen, ElementsAre(Stage{"to bio", 130, 140}, Stage{"block layer", 140, 145},
                                Stage{"disk", 145, 170}, Stage{"to end", 170, 180}));
}

TEST_F(PipelineTest, TheTurnOfAVhostWorkerIsOfTheExitThatNotifiedIt) {
  constexpr ThreadId kWorker{300};
  const auto change = [](std::uint64_t at, ThreadId from, ThreadId to, std::string_view comm) {
    return make(at, 1, from, SchedSwitch{from, to, false, comm});
  };
  const Recorder& all =
      play(SpanClass::kSpans | SpanClass::kRequests,
           {change(1, ThreadId{0}, kWorker, "vhost-90"),
            change(2, kWorker, ThreadId{0}, "swapper/1"), exit(100), port(102, 0xc010),
            make(105, 0, kVcpu0, SchedWakeup{kWorker, 1, true, SchedWakeup::Context::kThread}),
            entry(110), change(125, ThreadId{0}, kWorker, "vhost-90"),
            change(150, kWorker, ThreadId{0}, "swapper/1")});
  const auto exits = of_kind(all, SpanKind::kExit), turns = of_kind(all, SpanKind::kTurn);
  ASSERT_THAT(exits, SizeIs(1));
  ASSERT_THAT(turns, SizeIs(1));
  EXPECT_EQ(turns[0].begin, Timestamp(105));
  EXPECT_EQ(turns[0].end, Timestamp(150));
  EXPECT_EQ(turns[0].track.kind, TrackKind::kWorker);
  EXPECT_EQ(turns[0].track.thread, kWorker);
  ASSERT_THAT(all.flows, SizeIs(1));
  EXPECT_EQ(all.flows[0].from, exits[0].id);
  EXPECT_EQ(all.flows[0].to, turns[0].id);
  std::vector<std::uint64_t> ends;
  for (const Span& part : of_kind(all, SpanKind::kTurnPart)) ends.push_back(part.end.ns());
  EXPECT_THAT(ends, ElementsAre(125, 150));
}

TEST_F(PipelineTest, AnExitsPartsCoverItWithoutAGap) {
  const Recorder& all =
      play(SpanClass::kSpans,
           {exit(100), to_user(120), switch_out(130, true), switch_in(140), run_ioctl(170),
            switch_out(180, false), wake(190), switch_in(195), entry(200)});
  const auto exits = of_kind(all, SpanKind::kExit);
  ASSERT_THAT(exits, SizeIs(1));
  const auto parts = of_kind(all, SpanKind::kPart);
  std::vector<std::tuple<Part, std::uint64_t, std::uint64_t>> seen;
  for (const Span& part : parts) {
    EXPECT_EQ(part.parent, exits[0].id);
    seen.emplace_back(part.part, part.begin.ns(), part.end.ns());
  }
  EXPECT_THAT(
      seen,
      ElementsAre(std::tuple(Part::kKernel, 100, 120), std::tuple(Part::kUser, 120, 130),
                  std::tuple(Part::kPreempted, 130, 140), std::tuple(Part::kUser, 140, 170),
                  std::tuple(Part::kKernel, 170, 180), std::tuple(Part::kBlocked, 180, 190),
                  std::tuple(Part::kPreempted, 190, 195), std::tuple(Part::kKernel, 195, 200)));
}

TEST_F(PipelineTest, TheGuestRunsBetweenExits) {
  const Recorder& all = play(SpanClass::kSpans, {entry(90), exit(100), entry(150), exit(230)});
  const auto runs = of_kind(all, SpanKind::kGuest);
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].length(), 10u);
  EXPECT_EQ(runs[1].length(), 80u);
  EXPECT_EQ(runs[1].track.thread, kVcpu0);
}

TEST_F(PipelineTest, AReadsHandlerEndsWithItsEventAndAWritesBeginsWithIt) {
  const Recorder& all =
      play(SpanClass::kSpans,
           {exit(100), to_user(110), marker(130, kWriteRtcIndex), marker(160, kReadRtc),
            run_ioctl(170), port(175, 0x71, Access::kRead), entry(180)});
  const auto handlers = of_kind(all, SpanKind::kHandler);
  ASSERT_THAT(handlers, SizeIs(2));
  EXPECT_EQ(handlers[0].begin.ns(), 130u);
  EXPECT_EQ(handlers[0].end.ns(), 160u);
  EXPECT_EQ(handlers[1].begin.ns(), 130u);
  EXPECT_EQ(handlers[1].end.ns(), 160u);
  ASSERT_THAT(all.flows, SizeIs(1));
  EXPECT_EQ(all.flows[0].kind, FlowKind::kServedBy);
  EXPECT_EQ(all.flows[0].to, handlers[1].id);  // rtc, whose address is the exit's port
}

TEST_F(PipelineTest, FunctionsEndInTheOrderOfTheirReturns) {
  options_.roles = {Role::kGuest};
  const Recorder& all =
      play(SpanClass::kFunctions, {call(10, true, 0, "main"), call(20, true, 1, "f"),
                                   call(30, false, 1, "f"), call(40, true, 1, "g")});
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, bool>> seen;
  for (const Span& span : all.spans) {
    seen.emplace_back(std::string(pipeline_->names()[span.name]), span.begin.ns(), span.end.ns(),
                      span.complete);
  }
  // g and main were open when the recording ended: there they end, and are told as not complete.
  ASSERT_THAT(seen, SizeIs(3));
  EXPECT_EQ(seen[0], std::tuple("f", 20u, 30u, true));
  EXPECT_EQ(std::get<0>(seen[1]), "g");
  EXPECT_FALSE(std::get<3>(seen[1]));
  EXPECT_EQ(std::get<0>(seen[2]), "main");
  EXPECT_THAT(all.begins, SizeIs(3));
}

TEST_F(PipelineTest, AGuestsOwnEventsEndNoExitOfTheHost) {
  Event of_guest = switch_out(120, false);
  of_guest.machine = guest_machine(1);
  const Recorder& all = play(SpanClass::kSpans, {exit(100), of_guest, entry(150)});
  const auto parts = of_kind(all, SpanKind::kPart);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(parts[0].part, Part::kKernel);
}

TEST_F(PipelineTest, NothingOutsideOfTheWindowIsLookedAt) {
  options_.from = TimeSpec{100, true};
  options_.to = TimeSpec{400, true};
  const Recorder& all = play(SpanClass::kExits, {exit(1000), entry(1050), exit(1150), entry(1200),
                                                 exit(1500), entry(1600)});
  EXPECT_THAT(all.exits, ElementsAre(1150));
}

TEST_F(PipelineTest, AWindowInsideAnExitHasTheStateOfItsVcpu) {
  options_.from = TimeSpec{200, false};
  options_.to = TimeSpec{400, false};
  play(SpanClass::kExits, {entry(50), exit(100, kSvmHlt), switch_out(110, false), wake(500),
                           switch_in(510), entry(520)});
  const std::vector<VcpuTotalsOf> vcpus = pipeline_->vcpus();
  ASSERT_THAT(vcpus, SizeIs(1));
  EXPECT_EQ(vcpus[0].totals.begin.ns(), 200u);
  EXPECT_EQ(vcpus[0].totals.time_ns(), 200u);
  EXPECT_EQ(vcpus[0].totals.parts[static_cast<std::size_t>(Part::kHalted)], 200u);
  EXPECT_EQ(vcpus[0].totals.open, State::kHalted);
  EXPECT_EQ(vcpus[0].totals.open_ns, 300u);  // the exit began before
  EXPECT_EQ(pipeline_->begin()->ns(), 200u);
  EXPECT_EQ(pipeline_->end().ns(), 400u);
}

TEST_F(PipelineTest, AnExitThatBeganBeforeTheWindowIsNoSpanAndCostsFromThereOn) {
  options_.from = TimeSpec{110, false};
  options_.to = TimeSpec{300, false};
  Recorder& recorder =
      play(SpanClass::kExits, {entry(50), exit(100), to_user(105), run_ioctl(120), entry(130),
                               exit(200), entry(220), exit(400), entry(410)});
  EXPECT_THAT(recorder.exits, ElementsAre(200u));
  const VcpuTotals totals = pipeline_->vcpus().at(0).totals;
  EXPECT_EQ(totals.guest_ns, 70u + 80u);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kUser)], 10u);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kKernel)], 10u + 20u);
  EXPECT_EQ(totals.time_ns(), 190u);
  EXPECT_EQ(pipeline_->exits().counters().entry_without_exit, 1u);
  Overhead overhead;
  overhead.add(totals);
  EXPECT_EQ(overhead.exit_ns, 40u);
}

TEST_F(PipelineTest, AVcpuThatEndedBeforeTheWindowIsNotInIt) {
  options_.from = TimeSpec{300, false};
  play(
      SpanClass::kExits,
      {entry(50), exit(100),
       make(200, 0, kVcpu0, SchedSwitch{kVcpu0, kOtherThread, false, "", SchedSwitch::Left::kDead}),
       make(400, 0, kOtherThread, SchedSwitch{kOtherThread, ThreadId{9}, true, ""})});
  EXPECT_THAT(pipeline_->vcpus(), IsEmpty());
}

TEST_F(PipelineTest, ExitsOfOtherThreadsAreLeftOut) {
  options_.threads = {kVcpu1};
  const Recorder& all =
      play(SpanClass::kExits | SpanClass::kSpans,
           {exit(100), exit(110, kSvmIo, kVcpu1, 1), entry(150), entry(160, kVcpu1, 1)});
  EXPECT_THAT(all.exits, ElementsAre(110));
  EXPECT_THAT(of_kind(all, SpanKind::kExit), SizeIs(1));
}

TEST_F(PipelineTest, OpenExitsCanBeAskedForWhileEventsStillCome) {
  Recorder recorder(SpanClass::kExits);
  Pipeline pipeline(options_, {&recorder});
  ASSERT_TRUE(pipeline.push(exit(100)));
  ASSERT_THAT(pipeline.open(), SizeIs(1));
  EXPECT_EQ(pipeline.open()[0].begin.ns(), 100u);
  ASSERT_TRUE(pipeline.push(entry(150)));
  EXPECT_THAT(pipeline.open(), IsEmpty());
}

TEST_F(PipelineTest, ALossIsToldAndNoSpanBridgesIt) {
  const Recorder& all =
      play(SpanClass::kLosses | SpanClass::kSpans,
           {exit(100), lost(0, 110, 900, 7), entry(950), exit(1000), entry(1010)});
  EXPECT_THAT(all.losses, ElementsAre(7));
  const auto exits = of_kind(all, SpanKind::kExit);
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_EQ(exits[0].begin.ns(), 1000u);
}

}  // namespace
}  // namespace trapline::test
