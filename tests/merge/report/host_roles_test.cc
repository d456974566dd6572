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

// Returns "200: 40 of VM 50" for each thread that ran for a VM.
std::vector<std::string> told(std::vector<Event> events) {
  Capabilities has;
  has.kvm_exit = has.any_kvm = has.sched_switch = true;
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>(std::move(events), has));
  Timeline timeline(std::move(sources));
  Input input;
  input.capabilities = has;
  struct Sink : SpanSink {
    [[nodiscard]] SpanClass selects() const override { return SpanClass::kHostRuns; }
  } sink;
  Pipeline pipeline(pipeline_options(timeline, input), {&sink});
  Event event;
  while (timeline.next(event) == Read::kEvent) EXPECT_TRUE(pipeline.push(event));
  pipeline.finish();
  const Naming names(timeline, pipeline);
  std::vector<std::string> text;
  for (const HostThread& thread :
       host_threads(names, pipeline.host_runs()->threads(pipeline.end())))
    text.push_back(std::to_string(static_cast<int>(thread.runs.thread)) + ": " +
                   std::to_string(thread.runs.state.ran_ns) + " of VM " + thread.vm->id());
  return text;
}

TEST(HostRolesTest, AThreadWhoseIdAnotherProcessTookLaterKeepsItsTime) {
  EXPECT_THAT(told({made(1000, kMainLoop, kVcpu0, true), made(1001, kMainLoop, kWorker, true),
                    runs(1010, kMainLoop, kVcpu0, "CPU 0/KVM"), entry(1015), exit(1020),
                    runs(1030, kVcpu0, kWorker, "worker"), runs(1070, kWorker, kOfOther, "make"),
                    made(1080, kOfOther, kWorker, false), runs(1090, kOfOther, kWorker, "make"),
                    runs(1390, kWorker, kVcpu0, "CPU 0/KVM"), entry(1395), exit(1400)}),
              testing::ElementsAre("200: 40 of VM 50", "100: 30 of VM 50"));
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
