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
  void exit(const ExitSpan& exit, const Pipeline&) override {
    exits.push_back(exit.start.ns());
    for (const PartInterval& part : exit.intervals)
      parts.emplace_back(part.part, part.begin.ns(), part.end.ns());
  }
  void guest_run(const GuestRun& run, const Pipeline&) override { runs.push_back(run); }
  void begin(const FunctionCall& call, const Pipeline&) override { begins.push_back(call); }
  void end(const FunctionCall& call, const Pipeline&) override { ends.push_back(call); }
  void lost(const Event&, const Lost& lost, const Pipeline&) override {
    losses.push_back(lost.count);
  }

  std::vector<std::uint64_t> events, exits, losses;
  std::vector<std::tuple<Part, std::uint64_t, std::uint64_t>> parts;
  std::vector<GuestRun> runs;
  std::vector<FunctionCall> begins, ends;

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
  EXPECT_THAT(exits.parts, IsEmpty());
  const Recorder& events = play(SpanClass::kEvents, {exit(100), entry(150)});
  EXPECT_THAT(events.events, ElementsAre(100, 150));
  EXPECT_THAT(events.exits, IsEmpty());
  const Recorder& changes =
      play(SpanClass::kChanges, {exit(100), switch_out(110, false), switch_in(120), entry(150)});
  EXPECT_THAT(changes.events, ElementsAre(110, 120));
}

TEST_F(PipelineTest, AnExitsPartsCoverItWithoutAGap) {
  const Recorder& all =
      play(SpanClass::kExits | SpanClass::kIntervals,
           {exit(100), to_user(120), switch_out(130, true), switch_in(140), run_ioctl(170),
            switch_out(180, false), wake(190), switch_in(195), entry(200)});
  EXPECT_THAT(all.exits, ElementsAre(100));
  EXPECT_THAT(
      all.parts,
      ElementsAre(std::tuple(Part::kKernel, 100, 120), std::tuple(Part::kUser, 120, 130),
                  std::tuple(Part::kPreempted, 130, 140), std::tuple(Part::kUser, 140, 170),
                  std::tuple(Part::kKernel, 170, 180), std::tuple(Part::kBlocked, 180, 190),
                  std::tuple(Part::kPreempted, 190, 195), std::tuple(Part::kKernel, 195, 200)));
}

TEST_F(PipelineTest, TheGuestRunsBetweenExits) {
  const Recorder& all = play(SpanClass::kGuestRuns, {entry(90), exit(100), entry(150), exit(230)});
  ASSERT_THAT(all.runs, SizeIs(2));
  EXPECT_EQ(elapsed(all.runs[0].begin, all.runs[0].end), 10u);
  EXPECT_EQ(elapsed(all.runs[1].begin, all.runs[1].end), 80u);
  EXPECT_EQ(all.runs[1].thread, kVcpu0);
}

TEST_F(PipelineTest, FunctionsEndInTheOrderOfTheirReturns) {
  options_.roles = {Role::kGuest};
  const Recorder& all =
      play(SpanClass::kFunctions, {call(10, true, 0, "main"), call(20, true, 1, "f"),
                                   call(30, false, 1, "f"), call(40, true, 1, "g")});
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, bool>> seen;
  for (const FunctionCall& call : all.ends)
    seen.emplace_back(pipeline_->names()[pipeline_->stacks().innermost(call.stack)],
                      call.begin.ns(), call.end.ns(), call.complete);
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
  const Recorder& all =
      play(SpanClass::kExits | SpanClass::kIntervals, {exit(100), of_guest, entry(150)});
  EXPECT_THAT(all.parts, ElementsAre(std::tuple(Part::kKernel, 100, 150)));
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
  const Recorder& all = play(SpanClass::kExits, {exit(100), exit(110, kSvmIo, kVcpu1, 1),
                                                 entry(150), entry(160, kVcpu1, 1)});
  EXPECT_THAT(all.exits, ElementsAre(110));
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
      play(SpanClass::kLosses | SpanClass::kExits,
           {exit(100), lost(0, 110, 900, 7), entry(950), exit(1000), entry(1010)});
  EXPECT_THAT(all.losses, ElementsAre(7));
  EXPECT_THAT(all.exits, ElementsAre(1000));
}

}  // namespace
}  // namespace trapline::test
