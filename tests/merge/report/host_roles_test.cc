#include "merge/report/host_roles.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "merge/pass/pass.h"
#include "merge/source/timeline.h"
#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

constexpr ThreadId kMainLoop{50}, kOfOther{60}, kWorker{200};

Event made(std::uint64_t at, ThreadId by, ThreadId child, bool same_process) {
  return make(at, 0, by, NewThread{child, same_process});
}
Event runs(std::uint64_t at, ThreadId from, ThreadId to, std::string_view name) {
  return make(at, 0, from, SchedSwitch{from, to, false, name});
}

Event works(std::uint64_t at, ThreadId thread, HostStep step, std::uint64_t item,
            InterruptLevel level = InterruptLevel::kNone) {
  return make(at, 0, thread, HostEvent{step, 0, 0, item, 0, level});
}

// Returns "200: 40 of VM 50" for each thread that ran for a VM, "200: 40 of VM 50 in 2 items" for
// kernel workers, and "woken by 1 interrupt: 5" for threads that one woke while its CPU was idle.
std::vector<std::string> told(std::vector<Event> events, const Processes& listed = {}) {
  Capabilities has;
  has.kvm_exit = has.any_kvm = has.sched_switch = true;
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>(std::move(events), has));
  Timeline timeline(std::move(sources));
  Input input;
  input.capabilities = has;
  input.processes = listed;
  struct Sink : SpanSink {
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kHostRuns | SpanClass::kDeeds;
    }
  } sink;
  Pipeline pipeline(pipeline_options(timeline, input), {&sink});
  Event event;
  while (timeline.next(event) == Read::kEvent) EXPECT_TRUE(pipeline.push(event));
  pipeline.finish();
  const Naming names(timeline, pipeline);
  std::vector<std::string> text;
  for (const HostThread& thread :
       host_threads(names, pipeline.host_runs()->threads(pipeline.end())))
    text.push_back(tid_text(thread.runs.thread) + ": " + std::to_string(thread.runs.state.ran_ns) +
                   (thread.unsure ? " perhaps" : "") + " of VM " + thread.vm->id() +
                   (thread.role == HostRole::kIoUring ? " (io_uring)" : "") +
                   (thread.runs.state.idle_wakes == 0
                        ? ""
                        : ", " + std::to_string(thread.runs.state.idle_wakes) + " x idle, " +
                              std::to_string(thread.runs.state.idle_ns)));
  for (const HostThread& work : host_works(names))
    text.push_back(std::to_string(static_cast<int>(work.runs.thread)) + ": " +
                   std::to_string(work.runs.state.ran_ns) + " of VM " + work.vm->id() + " in " +
                   std::to_string(work.runs.state.turns) + " items");
  return text;
}

TEST(HostRolesTest, AThreadWhoseIdAVcpuOfAnotherVmTookLaterKeepsItsTime) {
  EXPECT_THAT(
      told({made(1000, kMainLoop, kVcpu0, true), made(1001, kMainLoop, kWorker, true),
            runs(1010, kMainLoop, kVcpu0, "CPU 0/KVM"), entry(1015), exit(1020),
            runs(1030, kVcpu0, kWorker, "IO io0"), runs(1070, kWorker, kOfOther, "qemu"),
            made(1080, kOfOther, kWorker, true), runs(1090, kOfOther, kWorker, "CPU 0/KVM"),
            make(1095, 0, kWorker, KvmEntry{0}), make(1100, 0, kWorker, KvmExit{.isa = kIsaSvm}),
            runs(1390, kWorker, kVcpu0, "CPU 0/KVM"), entry(1395), exit(1400)}),
      testing::Contains("200: 40 of VM 50"));
}

// A list means a later thread of its process, if events tell of one, else the first thread.
TEST(HostRolesTest, AListsThreadWhoseIdWasUsedAgainIsPerhapsTheVms) {
  Processes listed;
  for (const ThreadId thread : {kMainLoop, kVcpu0, kWorker}) listed.set(thread, kMainLoop);
  const auto used_again = [&](ThreadId by, bool same_process) {
    return told({runs(1010, kMainLoop, kVcpu0, "CPU 0/KVM"), entry(1015), exit(1020),
                 runs(1030, kVcpu0, kWorker, "IO io0"), runs(1070, kWorker, kOfOther, "make"),
                 made(1080, by, kWorker, same_process), runs(1090, kOfOther, kWorker, "make"),
                 runs(1390, kWorker, kVcpu0, "CPU 0/KVM"), entry(1395), exit(1400)},
                listed);
  };
  EXPECT_THAT(used_again(kOfOther, false),
              testing::ElementsAre("200: 40 of VM 50", "100: 30 of VM 50"));
  EXPECT_THAT(
      used_again(kMainLoop, true),
      testing::ElementsAre("200 #2: 300 of VM 50", "200: 40 perhaps of VM 50", "100: 30 of VM 50"));
}

TEST(HostRolesTest, IoUringsWorkersHaveARoleOfTheirOwn) {
  EXPECT_THAT(told({made(1000, kMainLoop, kVcpu0, true), made(1001, kMainLoop, kWorker, true),
                    runs(1010, kMainLoop, kVcpu0, "CPU 0/KVM"), entry(1015), exit(1020),
                    runs(1030, kVcpu0, kWorker, "iou-wrk-50"), runs(1070, kWorker, kVcpu0, "CPU"),
                    entry(1071)}),
              testing::Contains("200: 40 of VM 50 (io_uring)"));
}

class WorkItemsTest : public testing::Test {
 protected:
  static constexpr ThreadId kKworker{9};
  static constexpr std::uint64_t kItem = 0xffff888000001000, kOther = 0xffff888000002000;
  // The vCPU runs until 1100, then the worker, which sleeps from 1200 to 1300, until 1400.
  static std::vector<Event> around(std::vector<Event> queued, std::vector<Event> worked) {
    std::vector<Event> events = {made(1000, kMainLoop, kVcpu0, true),
                                 runs(1010, kMainLoop, kVcpu0, "CPU 0/KVM"), entry(1015),
                                 exit(1020)};
    events.insert(events.end(), queued.begin(), queued.end());
    events.push_back(runs(1100, kVcpu0, kKworker, "kworker/0:1"));
    for (const Event& event : worked) {
      if (event.at > Timestamp(1200) && events.back().at < Timestamp(1200)) {
        events.push_back(make(1200, 0, kKworker, SchedSwitch{kKworker, kOfOther, false, "make"}));
        events.push_back(runs(1300, kOfOther, kKworker, "kworker/0:1"));
      }
      events.push_back(event);
    }
    events.push_back(runs(1400, kKworker, kVcpu0, "CPU 0/KVM"));
    events.push_back(entry(1410));
    return events;
  }
};

TEST_F(WorkItemsTest, AWorkerRanForTheVmWhoseThreadQueuedTheItem) {
  EXPECT_THAT(told(around({works(1030, kVcpu0, HostStep::kWorkQueued, kItem),
                           works(1040, kVcpu0, HostStep::kWorkQueued, kOther)},
                          {works(1110, kKworker, HostStep::kWorkBegin, kItem),
                           works(1350, kKworker, HostStep::kWorkEnd, kItem),
                           works(1360, kKworker, HostStep::kWorkBegin, kOther),
                           works(1365, kKworker, HostStep::kWorkEnd, kOther)})),
              testing::Contains("9: 145 of VM 50 in 2 items"));
}

TEST_F(WorkItemsTest, AnItemThatGoesOnAtTheEndCountsUntilThen) {
  EXPECT_THAT(told(around({works(1030, kVcpu0, HostStep::kWorkQueued, kItem),
                           works(1040, kVcpu0, HostStep::kWorkQueued, kOther)},
                          {works(1110, kKworker, HostStep::kWorkBegin, kItem),
                           works(1150, kKworker, HostStep::kWorkEnd, kItem),
                           works(1160, kKworker, HostStep::kWorkBegin, kOther)})),
              testing::Contains("9: 280 of VM 50 in 2 items"));
}

TEST_F(WorkItemsTest, AnItemOfAnInterruptOrWithoutAnEndIsOfNobody) {
  const auto none = testing::Not(testing::Contains(testing::HasSubstr("items")));
  EXPECT_THAT(
      told(around({works(1030, kVcpu0, HostStep::kWorkQueued, kItem, InterruptLevel::kSoft)},
                  {works(1110, kKworker, HostStep::kWorkBegin, kItem),
                   works(1150, kKworker, HostStep::kWorkEnd, kItem)})),
      none);
  EXPECT_THAT(told(around({works(1030, kVcpu0, HostStep::kWorkQueued, kItem),
                           works(1040, kVcpu0, HostStep::kWorkQueued, kOther)},
                          {works(1110, kKworker, HostStep::kWorkBegin, kItem),
                           works(1150, kKworker, HostStep::kWorkEnd, kOther)})),
              none);
}

TEST(HostRunsTest, AnInterruptOfAnIdleCpuCountsWithTheThreadThatItWokeFirst) {
  constexpr ThreadId kIdle{0};
  const auto irq = [](std::uint64_t at, HostStep step) {
    return make(at, 0, kIdle, HostEvent{step, 0, 0, 0, 0});
  };
  const auto wakes = [](std::uint64_t at, ThreadId thread) {
    return make(at, 0, kIdle,
                SchedWakeup{thread, 0, true, WakeContext::kInterrupt, InterruptLevel::kHard});
  };
  EXPECT_THAT(told({made(1000, kMainLoop, kVcpu0, true), made(1001, kMainLoop, kWorker, true),
                    runs(1005, kIdle, kVcpu0, "CPU 0/KVM"), entry(1008), exit(1009),
                    make(1010, 0, kVcpu0, SchedSwitch{kVcpu0, kWorker, false, "worker"}),
                    make(1020, 0, kWorker, SchedSwitch{kWorker, kIdle, false, "swapper/0"}),
                    irq(1021, HostStep::kIrqBegin), irq(1022, HostStep::kIrqEnd),
                    irq(1100, HostStep::kIrqBegin), wakes(1102, kWorker), wakes(1104, kVcpu0),
                    irq(1107, HostStep::kIrqEnd), runs(1110, kIdle, kWorker, "worker"),
                    runs(1120, kWorker, kVcpu0, "CPU 0/KVM"), entry(1125)}),
              testing::ElementsAre("200: 20 of VM 50, 1 x idle, 7", "100: 10 of VM 50"));
}

TEST(HostRunsTest, AllThreadsTheIdleOnesIncludedSumToTheTimeOfTheCpus) {
  struct Sink : SpanSink {
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kEvents | SpanClass::kHostRuns;
    }
    void event(const Event& event, const Pipeline&) override {
      if (std::holds_alternative<SchedSwitch>(event.payload)) switched = event.at;
      if (switched && is_any_of<SchedSwitch, KvmExit, KvmEntry>(event.payload))
        told.try_emplace(event.cpu, std::pair(event.at, event.at)).first->second.second = event.at;
    }
    std::map<std::uint32_t, std::pair<Timestamp, Timestamp>> told;  // of a CPU: the first, the last
    std::optional<Timestamp> switched;
  };
  for (const char* name : {"box/two-vms.dat", "vmx/linux-2vcpu.dat", "arm64/kvm-arm64-linux.dat"}) {
    Sink sink;
    PassOptions what;
    what.input.paths = {std::string(TRAPLINE_TEST_DATA) + '/' + name};
    auto pass = Pass::open(what, {});
    ASSERT_TRUE(pass) << pass.error().message;
    const auto ended = std::move(*pass).run({&sink}, {});
    ASSERT_TRUE(ended);
    const Timestamp end = ended->pipeline().end();
    const HostRuns& runs = *ended->pipeline().host_runs();
    ASSERT_TRUE(sink.switched);
    const Timestamp known(sink.switched->ns() + HostRuns::kMostAfter);
    std::uint64_t expected = 0, ran = runs.unknown_ns();
    for (const auto& [cpu, told] : sink.told)
      expected += elapsed(told.first, std::min(end, std::max(known, told.second)));
    for (const HostRuns::Entry& thread : runs.threads(end)) ran += thread.state.ran_ns;
    EXPECT_EQ(ran, expected) << name;
    EXPECT_GT(expected, 10'000'000u) << name;
  }
}

}  // namespace
}  // namespace trapline::test
