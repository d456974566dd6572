// The arrows in a Perfetto trace: which slices each flow connects.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "backend_ftrace/base/text_file.h"
#include "merge/export/exit_walk.h"
#include "merge/export/exporter.h"
#include "merge/pass/naming.h"
#include "merge/source/timeline.h"
#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A field of a protobuf message: a number, or the bytes of a text or a message.
struct Field {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes;
};

std::vector<Field> fields(std::string_view message) {
  std::vector<Field> all;
  const auto number = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!message.empty()) {
    const std::uint64_t tag = number();
    Field field{tag >> 3, 0, {}};
    if ((tag & 7) == 0) {
      field.value = number();
    } else {
      const std::size_t size = (tag & 7) == 1 ? sizeof field.value : number();
      field.bytes = message.substr(0, size);
      if ((tag & 7) == 1) std::memcpy(&field.value, field.bytes.data(), sizeof field.value);
      message.remove_prefix(size);
    }
    all.push_back(field);
  }
  return all;
}

class PerfettoFlowsTest : public testing::Test {
 protected:
  PerfettoFlowsTest() { options_.model.user_end = UserEnd::kIoctl; }

  // Exports the events and returns the arrows of each flow, "VM exit 100 > VM request 130", in
  // order; `slices_` gets all slices.
  std::vector<std::string> play(const std::vector<Event>& events) {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::make_unique<MemorySource>());
    const Timeline timeline(std::move(sources));
    ExportOptions to;
    to.output = folder_ / "trace";
    to.force = true;
    auto exporter = make_perfetto({timeline, {}, {}, {}}, to);
    Pipeline pipeline(options_, {exporter->get()});
    for (const Event& event : events) EXPECT_TRUE(pipeline.push(event));
    pipeline.finish();
    EXPECT_TRUE((*exporter)->finish(Naming(timeline, pipeline)));
    const std::string trace = *read_text(to.output);
    for (const Field& packet : fields(trace)) read(packet.bytes);
    std::vector<std::string> arrows;
    for (auto& [flow, slices] : flows_) {
      std::ranges::stable_sort(slices, {}, &Slice::at);
      std::string all;
      for (const Slice& slice : slices) all += (all.empty() ? "" : " > ") + slice.text;
      if (slices.size() > 1) arrows.push_back(all);
    }
    std::ranges::sort(arrows);
    return arrows;
  }

  PipelineOptions options_;
  TemporaryFolder folder_;
  std::vector<std::string> slices_;

 private:
  struct Slice {
    std::uint64_t at = 0;
    std::string text;
  };
  struct Track {
    std::string name;
    std::uint64_t parent = 0;
  };
  void read(std::string_view packet) {
    std::uint64_t at = 0;
    for (const Field& field : fields(packet)) {
      if (field.number == 8) at = field.value;
      if (field.number == 12) read_interned(field.bytes);
      if (field.number == 60) read_track(field.bytes);
      if (field.number == 11) read_event(at, field.bytes);
    }
  }
  void read_interned(std::string_view data) {
    for (const Field& kind : fields(data)) {
      if (kind.number != 1) continue;  // categories
      const std::vector<Field> entry = fields(kind.bytes);
      categories_[entry[0].value] = entry[1].bytes;
    }
  }
  void read_track(std::string_view descriptor) {
    std::uint64_t id = 0;
    for (const Field& field : fields(descriptor)) {
      if (field.number == 1) id = field.value;
      if (field.number == 2) tracks_[id].name = field.bytes;
      if (field.number == 5) tracks_[id].parent = field.value;
    }
  }
  void read_event(std::uint64_t at, std::string_view event) {
    std::string category;
    std::vector<std::uint64_t> flows;
    std::uint64_t track = 0;
    for (const Field& field : fields(event)) {
      if (field.number == 3) category = categories_[field.value];
      if (field.number == 11) track = field.value;
      if (field.number == 47 || field.number == 48) flows.push_back(field.value);
    }
    if (category.empty()) return;
    while (tracks_[track].parent != 0) track = tracks_[track].parent;
    const Slice slice{at, fmt::format("{} {} {}", tracks_[track].name, category, at)};
    slices_.push_back(slice.text);
    for (const std::uint64_t flow : flows) flows_[flow].push_back(slice);
  }

  std::map<std::uint64_t, std::string> categories_;
  std::map<std::uint64_t, Track> tracks_;
  std::map<std::uint64_t, std::vector<Slice>> flows_;
};

Event woken_by(ThreadId waker, std::uint64_t at,
               SchedWakeup::Context context = SchedWakeup::Context::kThread) {
  return make(at, 1, waker, SchedWakeup{kVcpu0, 1, true, context});
}

TEST_F(PerfettoFlowsTest, AWakeupLeadsToThePartThatFollowsTheBlockedOne) {
  // sched_wakeup after sched_waking is the same one.
  const Event again = make(155, 1, kVcpu1, SchedWakeup{kVcpu0, 1, false});
  EXPECT_THAT(
      play({exit(100), switch_out(110, false), woken_by(kVcpu1, 150), again, switch_in(160),
            switch_out(170, false), woken_by(kOtherThread, 180, SchedWakeup::Context::kInterrupt),
            switch_in(190), entry(200)}),
      ElementsAre("VM wakeup 150 > VM part 150", "VM wakeup 180 > VM part 180"));
}

TEST_F(PerfettoFlowsTest, AWakeupOutsideOfAnExitOrOfARunningThreadIsNone) {
  EXPECT_THAT(play({entry(90), woken_by(kVcpu1, 95), exit(100), woken_by(kVcpu1, 120), entry(200)}),
              IsEmpty());
  EXPECT_THAT(slices_, testing::Not(testing::Contains(testing::HasSubstr("wakeup"))));
}

TEST_F(PerfettoFlowsTest, TheTurnOfAVhostWorkerIsOfTheExitThatNotifiedIt) {
  constexpr ThreadId kWorker{300};
  const auto change = [](std::uint64_t at, ThreadId from, ThreadId to, std::string_view comm) {
    return make(at, 1, from, SchedSwitch{from, to, false, comm});
  };
  EXPECT_THAT(
      play({change(1, ThreadId{0}, kWorker, "vhost-90"),
            change(2, kWorker, ThreadId{0}, "swapper/1"), exit(100), port(102, 0xc010),
            make(105, 0, kVcpu0, SchedWakeup{kWorker, 1, true, SchedWakeup::Context::kThread}),
            entry(110), change(125, ThreadId{0}, kWorker, "vhost-90"),
            change(150, kWorker, ThreadId{0}, "swapper/1")}),
      ElementsAre("VM exit 100 > VM vhost 105"));
  EXPECT_THAT(slices_, testing::IsSupersetOf({"VM vhost part 105", "VM vhost part 125"}));
}

// Two VMs do the same at the same times, as it looks on a clock of microseconds. In an exit that
// its VMM serves, a notify begins two requests at one time; both end, and their interrupt is
// raised, at one time before the exit ends.
TEST_F(PerfettoFlowsTest, WhatHappensAtOneTimeHasFlowsOfItsOwn) {
  constexpr ThreadId kVcpus[] = {ThreadId{100}, ThreadId{200}};
  const auto act = [](ThreadId vcpu) {
    const auto irq = [vcpu](std::uint64_t at, IrqStep step) {
      const bool names_vcpu = step != IrqStep::kInject;
      return make(at, 0, vcpu, KvmIrq{step, true, 0, 0x24, names_vcpu ? 0 : kNoVcpu});
    };
    const auto mark = [vcpu](std::uint64_t at, std::string_view text) {
      return marker(at, text, vcpu);
    };
    Event write = port(101, 0x70);
    write.thread = vcpu;
    const std::uint32_t cpu = vcpu == ThreadId{100} ? 0 : 2;
    return std::vector<Event>{
        exit(100, kSvmIo, vcpu),
        write,
        to_user(102, 2, vcpu),
        mark(103, kWriteRtcIndex),
        mark(110, "virtio_queue_notify vdev 0xd n 0 vq 0x1\n"),
        mark(111, "virtio_blk_handle_read vdev 0xd req 0xaa sector 0 nsectors 8\n"),
        mark(111, "virtio_blk_handle_write vdev 0xd req 0xbb sector 8 nsectors 8\n"),
        mark(115, "virtio_blk_req_complete vdev 0xd req 0xaa status 0\n"),
        mark(115, "virtio_blk_req_complete vdev 0xd req 0xbb status 0\n"),
        mark(115, "virtio_notify vdev 0xd vq 0x1\n"),
        irq(115, IrqStep::kMsi),
        irq(115, IrqStep::kAccept),
        run_ioctl(121, vcpu),
        irq(122, IrqStep::kInject),
        entry(123, vcpu),
        exit(130, kSvmHlt, vcpu),
        irq(131, IrqStep::kEoi),
        switch_out(132, false, vcpu, cpu),
        wake(133, vcpu),
        switch_in(134, vcpu, cpu),
        entry(140, vcpu)};
  };
  std::vector<Event> events;
  const std::vector<Event> one = act(kVcpus[0]), other = act(kVcpus[1]);
  for (std::size_t i = 0; i < one.size(); ++i) {
    events.push_back(one[i]);
    events.push_back(other[i]);
  }
  std::vector<std::string> expected;
  for (const ThreadId vcpu : kVcpus) {
    const ThreadId process{static_cast<std::int32_t>(vcpu) - 10};
    options_.processes.set(vcpu, process);
    const auto arrow = [&](std::initializer_list<std::string_view> slices) {
      std::string all;
      for (const std::string_view slice : slices)
        all += fmt::format("{}VM {} {}", all.empty() ? "" : " > ", tid_of(process), slice);
      expected.push_back(all);
    };
    arrow({"exit 100", "qemu 103"});
    arrow({"exit 100", "request 110", "request 111", "request 111"});
    arrow({"request 110", "interrupt 115"});
    arrow({"wakeup 133", "part 133"});
  }
  std::ranges::sort(expected);
  EXPECT_EQ(play(events), expected);
}

// Both exits of one vCPU begin and end in one microsecond; which of them carried the notify is not
// known.
TEST_F(PerfettoFlowsTest, ExitsWithoutATimeHaveNoArrowToEachOther) {
  std::vector<Event> events = {entry(90)};
  for (int i = 0; i < 2; ++i)
    events.insert(events.end(), {exit(100, kSvmIo), port(100, 0x70), entry(100)});
  EXPECT_THAT(play(events), IsEmpty());
}

TEST_F(PerfettoFlowsTest, ExitsThatAreLeftOutKeepNoWakeups) {
  options_.wants = [](const ExitSpan& exit, const Pipeline&) {
    return exit.start.ns() > 1'000'000;
  };
  std::vector<Event> events;
  std::uint64_t at = 0;
  const auto sleep = [&] {
    at += 20;
    events.insert(events.end(), {exit(at), switch_out(at + 2, false), woken_by(kVcpu1, at + 5),
                                 switch_in(at + 6), entry(at + 10)});
  };
  while (at < ExitTracker::kMostIntervals * 20) sleep();
  at = 1'000'000;
  sleep();
  EXPECT_THAT(play(events), ElementsAre("VM wakeup 1000025 > VM part 1000025"));
}

// The read ends with its event; from when the write's handler began it is not known which of the
// two ran.
TEST_F(PerfettoFlowsTest, InUftracesDirectoryAReadIsInsideTheWriteBeforeIt) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<MemorySource>());
  const Timeline timeline(std::move(sources));
  ExportOptions to;
  to.output = folder_ / "uftrace";
  auto exporter = make_uftrace({timeline, {}, {}, {}}, to);
  Pipeline pipeline(options_, {exporter->get()});
  for (const Event& event :
       {entry(50), exit(100), to_user(102), marker(110, kWriteRtcIndex), marker(120, kReadRtc),
        marker(130, kWriteRtcIndex), run_ioctl(140), entry(150)})
    EXPECT_TRUE(pipeline.push(event));
  pipeline.finish();
  EXPECT_TRUE((*exporter)->finish(Naming(timeline, pipeline)));
  const std::string task = *read_text(folder_ / "uftrace/100.dat");
  std::string calls;
  for (std::size_t at = 0; at + 16 <= task.size(); at += 16) {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), &task[at], sizeof words);
    const bool has_arguments = (words[1] & 4) != 0;
    calls += fmt::format(" {}{}", (words[1] & 3) == 0 ? '+' : '-', words[0]);
    if (has_arguments) at += 16;  // the rip, and "-" with its length
  }
  EXPECT_EQ(calls, " +50 -100 +100 +110 +110 -120 -120 +130 -140 -150");
}

TEST(HandlersOfTest, AReadsHandlerEndsWithItsEventAndAWritesBeginsWithIt) {
  constexpr NameId kEvent = 5, kIndex = 6, kRtc = 7;
  const PartInterval user[] = {{Part::kUser, Timestamp(110), Timestamp(170)}};
  const HandlerEvent events[] = {{Timestamp(130), kEvent, kIndex, false},
                                 {Timestamp(160), kEvent, kRtc, true},
                                 {Timestamp(165), kEvent, kNoName, false}};
  ExitSpan exit;
  exit.device = kRtc;
  exit.intervals = user;
  exit.handlers = events;
  std::vector<std::tuple<std::uint64_t, std::uint64_t, bool>> seen;
  for (const HandlerRun& run : handlers_of(exit))
    seen.emplace_back(run.begin.ns(), run.end.ns(), run.served);
  EXPECT_THAT(seen, ElementsAre(std::tuple(130, 160, false), std::tuple(130, 160, true),
                                std::tuple(165, 165, false)));
}

}  // namespace
}  // namespace trapline::test
