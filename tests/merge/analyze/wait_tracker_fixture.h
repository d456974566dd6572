// A pipeline of one vCPU whose waits are told as texts.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/wait_tracker.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {

// One share: "7 100" is 100 ns of thread 7.
inline std::string text_of(const WaitShare& share) {
  const Culprit& culprit = share.culprit;
  std::string who;
  switch (culprit.kind) {
    case CulpritKind::kThread:
      who = std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kIdle:
      who = "idle";
      break;
    case CulpritKind::kIdleOther:
      who = "idle, why is not known";
      break;
    case CulpritKind::kNotAllowed:
      who = "not allowed";
      break;
    case CulpritKind::kQuota:
      who = "quota";
      break;
    case CulpritKind::kFutex:
      who = "futex of " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kTimer:
      who = "timer";
      break;
    case CulpritKind::kInterrupt:
      who = "irq " + std::to_string(culprit.number);
      break;
    case CulpritKind::kDisk:
      who = "disk";
      break;
    case CulpritKind::kIpi:
      who = "ipi " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kLock:
      who = "lock of " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kSoftirq:
      who = "softirq " + std::to_string(culprit.number);
      break;
    case CulpritKind::kPage:
      who = "page of " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kCollapse:
      who = "collapse by " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kUnknown:
      who = "unknown " + std::to_string(static_cast<int>(culprit.missing));
      break;
  }
  if (culprit.handler != kNoName) who += " handler";
  if (culprit.root == CulpritKind::kTimer) who += " after a timer";
  if (culprit.root == CulpritKind::kDisk) who += " after the disk";
  return (share.part == Part::kBlocked ? "blocked " : "") + who + " " +
         std::to_string(share.length());
}

class WaitTrackerTest : public testing::Test {
 protected:
  WaitTrackerTest() : sink_(*this), pipeline_(PipelineOptions(), {&sink_}) {
    // Handlers' ends are recorded.
    play({context(1, HostStep::kTimerEnd), context(1, HostStep::kIrqEnd),
          context(1, HostStep::kSoftirqEnd)});
  }

  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) ASSERT_TRUE(pipeline_.push(event));
  }
  Event on(std::uint32_t cpu, Event event) {
    event.cpu = cpu;
    return event;
  }
  Event sched(std::uint64_t at, ThreadId prev, ThreadId next, bool runnable = true,
              std::uint32_t cpu = 0) {
    return make(at, cpu, prev, SchedSwitch{prev, next, runnable, "next"});
  }
  Event host(std::uint64_t at, ThreadId by, HostEvent what) { return make(at, 1, by, what); }
  Event woken(std::uint64_t at, ThreadId by, SchedWakeup what, bool in_interrupt) {
    using Context = SchedWakeup::Context;
    what.context = in_interrupt ? Context::kInterrupt : Context::kThread;
    what.level = in_interrupt ? InterruptLevel::kHard : InterruptLevel::kNone;
    return make(at, 1, by, what);
  }
  Event waking(std::uint64_t at, ThreadId by = kOtherThread, bool in_interrupt = false) {
    return woken(at, by, {kVcpu0, 0, true}, in_interrupt);
  }
  Event wakeup(std::uint64_t at, std::int32_t cpu, ThreadId by = kOtherThread,
               bool in_interrupt = false) {
    return woken(at, by, {kVcpu0, cpu, false}, in_interrupt);
  }
  Event migrate(std::uint64_t at, std::int32_t cpu) {
    return host(at, kOtherThread, {HostStep::kMigrate, cpu, 100, 0, 0});
  }
  Event context(std::uint64_t at, HostStep step, std::int32_t number = 0,
                ThreadId by = kOtherThread) {
    return host(at, by, {step, number, 0, 0, 0, InterruptLevel::kHard});
  }
  Event disk(std::uint64_t at, InterruptLevel level = InterruptLevel::kHard) {
    return make(at, 1, kOtherThread, BlockIo{BlockStep::kCompleted, true, false, 0, 8, 0, level});
  }

  // As glibc's mutex calls it: it waits while the value is 2, and wakes one thread.
  static constexpr std::uint64_t kWait = 0x80, kWake = 0x81, kWaitBitset = 0x189, kLockPi = 0x86,
                                 kUnlockPi = 0x87;
  Event futex(std::uint64_t at, ThreadId by, std::uint64_t address, std::uint64_t call,
              std::int32_t value = -1) {
    if (value < 0) value = call == kWait ? 2 : 1;
    return host(at, by, {HostStep::kFutex, value, 0, address, call});
  }
  Event futex_end(std::uint64_t at, ThreadId by) {
    return host(at, by, {HostStep::kFutexEnd, 0, 0, 0, 0});
  }
  static constexpr ThreadId kIdle{0}, kHolder{8};
  Event wakes(std::uint64_t at, ThreadId thread, ThreadId by, bool in_interrupt = false) {
    return woken(at, by, {thread, 0, true}, in_interrupt);
  }

  struct Sink : SpanSink {
    explicit Sink(WaitTrackerTest& owner) : test(owner) {}
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kExits | SpanClass::kWaits;
    }
    void wait(const EndedWait& wait, const Pipeline&) override {
      for (const WaitShare& share : wait.shares) test.waits_.push_back(text_of(share));
    }
    void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
      Parts sums{};
      for (const WaitShare& share : pipeline.waits()->shares()) {
        test.shares_.push_back(text_of(share));
        sums[static_cast<std::size_t>(share.part)] += share.length();
      }
      EXPECT_EQ(sums[2], exit.parts[2]);
      EXPECT_EQ(sums[3], exit.parts[3]);
      for (const WaitShare& share : pipeline.waits()->halts())
        test.halts_.push_back(text_of(share));
    }
    WaitTrackerTest& test;
  };

  const std::string selected_ =
      "unknown " + std::to_string(static_cast<int>(Missing::kSelected)) + " ";
  std::vector<std::string> shares_, waits_, halts_;
  Sink sink_;
  Pipeline pipeline_;
};

}  // namespace trapline::test
