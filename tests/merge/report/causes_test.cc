#include "merge/report/causes.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

namespace trapline {
namespace {

using testing::HasSubstr;

TEST(Causes, AreThoseOfTheDocument) {
  std::ifstream file(std::string(TRAPLINE_SOURCE_DIR) + "/docs/explain.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const Cause& cause : causes()) {
    std::string row = "\n| ";
    row.append(cause.advice).append(" | ").append(cause.source).append(" |\n");
    EXPECT_THAT(text.str(), HasSubstr(row));
  }
}

TEST(Causes, OfAPartDependOnTheCulprit) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  const Circumstances none, vmm{.of_vmm = true}, vcpu{.by_vcpu = true, .of_vmm = true};
  EXPECT_EQ(cause_of(Part::kPreempted, thread, none)->id, "preempted-by-thread");
  EXPECT_EQ(cause_of(Part::kPreempted, thread, vcpu)->id, "preempted-by-vcpu");
  EXPECT_EQ(cause_of(Part::kPreempted, thread, vmm)->id, "preempted-by-vmm");
  EXPECT_EQ(cause_of(Part::kKernel, thread, none), nullptr);
  EXPECT_EQ(cause_of(Part::kBlocked, Culprit(), none), nullptr);
  for (const auto& [kind, id] : {std::pair{CulpritKind::kNotAllowed, "not-allowed-to-run"},
                                 {CulpritKind::kQuota, "cpu-quota"}}) {
    Culprit culprit;
    culprit.kind = kind;
    EXPECT_EQ(cause_of(Part::kPreempted, culprit, none)->id, id);
  }
  for (std::uint32_t vector = 0; vector < 10; ++vector) {
    Culprit softirq;
    softirq.kind = CulpritKind::kSoftirq;
    softirq.number = vector;
    const bool follows = 2 <= vector && vector <= 5;  // NET_TX, NET_RX, BLOCK, IRQ_POLL
    EXPECT_EQ(cause_of(Part::kPreempted, softirq, none) != nullptr, follows) << vector;
  }
  for (const CulpritKind kind : {CulpritKind::kIdle, CulpritKind::kIdleOther}) {
    Culprit idle;
    idle.kind = kind;
    EXPECT_EQ(cause_of(Part::kPreempted, idle, none), nullptr);
  }
}

TEST(Causes, OfThreadsOfTheKernelThatNoCpusetMovesAreTheirOwn) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  for (const auto& [comm, id] : {std::pair{"kworker/0:1H", "preempted-by-kworker"},
                                 {"kworker/u8:2", "preempted-by-unbound-kworker"},
                                 {"ksoftirqd/3", "preempted-by-ksoftirqd"},
                                 {"rcuc/1", "preempted-by-rcuc"},
                                 {"irq/27-virtio0", "preempted-by-interrupt"},
                                 {"migration/0", "preempted-by-cpu-kthread"},
                                 {"cpuhp/2", "preempted-by-cpu-kthread"},
                                 {"rcu_preempt", "preempted-by-thread"},
                                 {"kworker/", "preempted-by-thread"},
                                 {"migration/manager", "preempted-by-thread"}}) {
    EXPECT_EQ(cause_of(Part::kPreempted, thread, {.kernel = kernel_thread(comm)})->id, id) << comm;
  }
}

TEST(Causes, PollingIsAdvisedForHaltsAlone) {
  for (const auto& [kind, id] : {std::pair{CulpritKind::kTimer, "halted-until-timer"},
                                 {CulpritKind::kIpi, "halted-until-ipi"}}) {
    Culprit culprit;
    culprit.kind = kind;
    EXPECT_EQ(cause_of(Part::kHalted, culprit, {})->id, id);
    EXPECT_EQ(cause_of(Part::kBlocked, culprit, {}), nullptr);
    EXPECT_EQ(cause_of(Part::kHalted, culprit, {.sleep_ns = 20'000'000}), nullptr);
  }
}

TEST(Causes, ARecorderThatRanIsNotBlamed) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  EXPECT_EQ(cause_of(Part::kPreempted, thread, {.recorder = true}), nullptr);
}

TEST(Causes, AThreadThatRanWhileTheVcpuMayHaveBeenThrottledIsNotBlamed) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  EXPECT_EQ(cause_of(Part::kPreempted, thread, {.of_vmm = true, .throttled = true}), nullptr);
}

TEST(Causes, AnIoThreadIsAdvisedForADeviceThatCanBeInOne) {
  for (const CulpritKind kind : {CulpritKind::kThread, CulpritKind::kFutex, CulpritKind::kLock}) {
    Culprit culprit;
    culprit.kind = kind;
    EXPECT_EQ(cause_of(Part::kBlocked, culprit, {.of_vmm = true, .iothread_device = true})->id,
              "blocked-on-vmm");
    EXPECT_EQ(cause_of(Part::kBlocked, culprit, {.of_vmm = true}), nullptr);
    EXPECT_EQ(cause_of(Part::kBlocked, culprit, {.iothread_device = true}), nullptr);
  }
  for (const char* name : {"virtio-pci-notify-virtio-blk", "virtio_scsi_handle_cmd_req"})
    EXPECT_TRUE(can_have_iothread(name));
  for (const char* name : {"rtc", "serial", "virtio-pci-notify-virtio-net", "ide", ""})
    EXPECT_FALSE(can_have_iothread(name));
}

TEST(Causes, OfAWakeUpFromAVcpuNeedItsQemuEvent) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  const Circumstances vcpu{.by_vcpu = true, .of_vmm = true, .iothread_device = true};
  EXPECT_EQ(cause_of(Part::kBlocked, thread, vcpu), nullptr);
  thread.handler = Names::kOther;
  EXPECT_EQ(cause_of(Part::kBlocked, thread, vcpu)->id, "blocked-on-vmm");
}

}  // namespace
}  // namespace trapline
