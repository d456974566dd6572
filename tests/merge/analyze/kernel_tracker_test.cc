#include "merge/analyze/kernel_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Types of events that have no payload of their own, by number.
constexpr const char* kEventNames[] = {"",
                                       "kvm:kvm_page_fault",
                                       "kvm:kvm_msr",
                                       "irq_vectors:local_timer_entry",
                                       "irq_vectors:local_timer_exit",
                                       "timer:hrtimer_expire_entry",
                                       "timer:hrtimer_expire_exit",
                                       "irq_vectors:vector_alloc"};
enum Type : std::uint16_t { kFault = 1, kMsr, kVector, kVectorEnd, kTimer, kTimerEnd, kAlloc };

Event other(std::uint64_t at, Type type) {
  Event event = make(at, 0, kVcpu0, Other{});
  event.type = type;
  return event;
}
Event call(std::uint64_t at, bool begins, std::uint64_t function, std::int32_t depth) {
  return make(
      at, 0, kVcpu0,
      HostEvent{begins ? HostStep::kFunctionBegin : HostStep::kFunctionEnd, depth, 0, function, 0});
}

// The sub-parts of each exit's kernel time.
class KernelParts : public SpanSink {
 public:
  using Parts = std::vector<std::pair<std::string, std::uint64_t>>;

  SpanClass selects() const override { return SpanClass::kExits | SpanClass::kKernelParts; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    Parts parts;
    std::uint64_t sum = 0;
    for (const KernelShare& share : pipeline.kernel()->shares()) {
      parts.emplace_back(kernel_work_text(share.work, pipeline.names()[share.name]), share.ns);
      sum += share.ns;
      EXPECT_LE(share.max_ns, share.ns);
    }
    EXPECT_EQ(sum, exit.parts[static_cast<std::size_t>(Part::kKernel)]);
    exits.push_back(std::move(parts));
  }
  std::vector<Parts> exits;
};

class KernelTrackerTest : public testing::Test {
 protected:
  void play(std::initializer_list<Event> events) {
    PipelineOptions options;
    options.model.sched_switch = options.model.userspace_exits = true;
    options.model.user_end = UserEnd::kIoctl;
    options.event_name = [](const Event& event) { return std::string(kEventNames[event.type]); };
    options.kernel_function = [](const Event& event) {
      return std::string(1, static_cast<char>(std::get<HostEvent>(event.payload).address));
    };
    pipeline_.emplace(std::move(options), std::vector<SpanSink*>{&sink_});
    for (const Event& event : events) (void)pipeline_->push(event);
    pipeline_->finish();
  }
  KernelParts sink_;
  const std::vector<KernelParts::Parts>& exits_ = sink_.exits;
  std::optional<Pipeline> pipeline_;
};

TEST_F(KernelTrackerTest, AnEventOfItsSystemThatEndsNothingIsAnInstant) {
  play({exit(100), other(110, kAlloc), entry(150)});
  EXPECT_THAT(exits_,
              ElementsAre(ElementsAre(Pair("untraced", 10), Pair("after vector_alloc", 40))));
}

TEST_F(KernelTrackerTest, AnEndWithoutABeginChangesNothing) {
  play({exit(100), other(110, kFault), other(120, kTimerEnd), entry(150)});
  EXPECT_THAT(exits_,
              ElementsAre(ElementsAre(Pair("untraced", 10), Pair("after kvm_page_fault", 40))));
}

TEST_F(KernelTrackerTest, AfterUserSpaceNothingIsKnownOfTheKernel) {
  play({exit(100), other(110, kMsr), to_user(120), other(130, kFault), run_ioctl(180), entry(200)});
  EXPECT_THAT(exits_,
              ElementsAre(ElementsAre(Pair("untraced", 10 + 20), Pair("after kvm_msr", 10))));
}

TEST_F(KernelTrackerTest, AnExitKeepsNothingOfTheOneBefore) {
  play({exit(100), other(110, kVector), entry(150), exit(200), entry(250)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("untraced", 10), Pair("vector local_timer", 40)),
                                  ElementsAre(Pair("untraced", 50))));
}

TEST_F(KernelTrackerTest, ALateExitHasWhatCameSinceItsThreadLeftTheCpu) {
  play({exit(10), entry(20), switch_out(100, true), switch_in(130), other(140, kVector),
        other(145, kVectorEnd), exit(150), entry(160)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("untraced", 10)),
                                  ElementsAre(Pair("untraced", 10 + 5 + 10),
                                              Pair("vector local_timer", 5))));
}

TEST_F(KernelTrackerTest, FunctionsThatBeganBeforeTheExitAndEndAfterItAreCutAtItsEdges) {
  play({call(80, true, 'r', 0), call(90, true, 's', 1), exit(100), call(110, false, 's', 1),
        call(120, true, 'h', 1), other(125, kFault), call(130, true, 'm', 2),
        call(150, false, 'm', 2), call(160, false, 'h', 1), entry(170), call(180, true, 's', 1),
        exit(200), call(205, false, 's', 1), entry(210)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("s()", 10), Pair("r()", 10 + 10),
                                              Pair("h()", 10 + 10), Pair("m()", 20)),
                                  ElementsAre(Pair("s()", 5), Pair("r()", 5))));
}

TEST_F(KernelTrackerTest, ADepthEndsFunctionsWhoseReturnsAreNotRecorded) {
  play({exit(100), call(110, true, 'a', 0), call(120, true, 'b', 1), call(130, true, 'c', 0),
        call(140, false, 'b', 1), call(150, false, 'c', 0), entry(160)});
  EXPECT_THAT(exits_, ElementsAre(ElementsAre(Pair("untraced", 10 + 10), Pair("a()", 10),
                                              Pair("b()", 10), Pair("c()", 20))));
}

TEST_F(KernelTrackerTest, AfterALossNoFunctionIsKnownToLast) {
  play({exit(90), entry(91), call(95, true, 'a', 0), lost(0, 96, 99), exit(100), entry(160)});
  EXPECT_THAT(exits_,
              ElementsAre(ElementsAre(Pair("untraced", 1)), ElementsAre(Pair("untraced", 60))));
}

}  // namespace
}  // namespace trapline::test
