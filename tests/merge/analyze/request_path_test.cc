#include "merge/analyze/request_path.h"

#include <gtest/gtest.h>

#include "merge/analyze/vmm/event_reader.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr ThreadId kQemu{50};
constexpr std::uint64_t kQueue0 = 0xfebfb000, kQueue1 = 0xfebfb004, kElsewhere = 0xfec00000;

class RequestPathTest : public testing::Test {
 protected:
  void mark(std::uint64_t at, std::string_view text, ThreadId thread = kQemu) {
    VmmEvent qemu;
    ASSERT_TRUE(reader_.read(text, qemu));
    const RequestSpan* span =
        path_.on_marker(marker(at, text, thread), Marker{text}, qemu.name, ThreadId{});
    if (span != nullptr) ended_.push_back(*span);
  }
  void see(const Event& event) {
    const ThreadChanges changes = threads_.on(event);
    path_.on(event, changes, ThreadId{});
    (void)interrupts_.on(event, changes, ThreadId{});
    for (const Delivered& delivered : interrupts_.delivered()) delivered_.push_back(delivered);
  }
  // An exit that KVM handles itself, with a write.
  void write(std::uint64_t at, std::uint64_t address, std::uint64_t value) {
    see(exit(at, kSvmNpf));
    see(make(at + 1, 0, kVcpu0,
             KvmDetail{address, value, DetailKind::kMmio, Access::kWrite, false}));
    see(entry(at + 2));
  }
  void irq(std::uint64_t at, IrqStep step, std::uint32_t vector, std::int32_t vcpu = kNoVcpu,
           ThreadId thread = kQemu, std::uint32_t pin = 0) {
    see(make(at, 0, thread, KvmIrq{step, true, pin, vector, vcpu}));
  }
  void msi(std::uint64_t at, std::uint32_t vector = 0x24) {
    irq(at, IrqStep::kMsi, vector, 0);
    irq(at + 1, IrqStep::kAccept, vector, 0);
  }
  // Notify, request, end and guest notify of a queue, without what the kernel tells.
  void serve(std::uint64_t at, unsigned n = 0) {
    const std::string queue = fmt::format("vq 0x{}", n + 1);
    mark(at, fmt::format("virtio_queue_notify vdev 0xd n {} {}", n, queue));
    mark(at + 1, "virtio_blk_handle_read vdev 0xd req 0xaa sector 0 nsectors 8");
    mark(at + 5, "virtio_blk_req_complete vdev 0xd req 0xaa status 0");
    mark(at + 6, fmt::format("virtio_notify vdev 0xd {}", queue));
  }
  // Two notifies tell where queue 0 is written to.
  void learn() {
    serve(10);
    write(20, kQueue0, 0);
    serve(30);
    write(40, kQueue0, 0);
    serve(50);
    ended_.clear();
  }

  Names names_;
  VmmEventReader reader_{names_};
  IrqTracker interrupts_;
  RequestPath path_{names_, RequestSpans(known_requests(), names_, {}), interrupts_};
  Processes processes_;
  Threads threads_{&processes_};
  std::vector<RequestSpan> ended_;
  std::vector<Delivered> delivered_;
};

TEST_F(RequestPathTest, ARequestIsFollowedFromTheGuestsNotifyToItsInterrupt) {
  learn();
  write(100, kQueue0, 0);
  serve(110);
  msi(120);
  see(entry(130));
  irq(140, IrqStep::kInject, 0x24, kNoVcpu, kVcpu0);
  ASSERT_EQ(ended_.size(), 2u);
  EXPECT_EQ(ended_[0].notified.value().begin, Timestamp(100)) << "the request";
  EXPECT_EQ(ended_[1].notified.value().begin, Timestamp(100)) << "the queue's notify";
  ASSERT_EQ(delivered_.size(), 2u);
  for (const Delivered& delivered : delivered_) EXPECT_EQ(delivered.injected, Timestamp(140));
  EXPECT_EQ(delivered_[0].request.end, Timestamp(115));
  EXPECT_EQ(delivered_[1].request.end, Timestamp(116));
}

// A vCPU that slept when the recording began: kvm_inj_virq names none, the kvm_entry after it does.
TEST_F(RequestPathTest, TheFirstInjectionOfAThreadIsItsVcpusToo) {
  serve(100);
  msi(110);
  irq(120, IrqStep::kInject, 0x24, kNoVcpu, kVcpu0);
  see(entry(125));
  see(exit(130));
  irq(140, IrqStep::kInject, 0x24, kNoVcpu, kVcpu0);
  ASSERT_EQ(delivered_.size(), 2u);  // the request, and the queue's notify
  for (const Delivered& delivered : delivered_) EXPECT_EQ(delivered.injected, Timestamp(120));
}

TEST_F(RequestPathTest, ANotifyThatQemuServesOnTheVcpusThreadIsOfItsExit) {
  see(exit(10));
  see(port(11, 0xc010));
  see(to_user(12));
  mark(13, "virtio_queue_notify vdev 0xd n 0 vq 0x1", kVcpu0);
  EXPECT_EQ(ended_.size(), 0u);
  mark(14, "virtio_notify vdev 0xd vq 0x1", kVcpu0);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].notified.value().begin, Timestamp(10));
}

TEST_F(RequestPathTest, AQueuesAddressIsWhatIsLeftOfSeveralNotifies) {
  serve(10);
  write(20, kElsewhere, 0);
  write(23, kQueue0, 0);
  serve(30);
  write(40, kQueue0, 0);
  write(43, kQueue1, 1);  // another queue's number
  serve(50);
  write(60, kElsewhere, 0);
  write(63, kQueue0, 0);
  serve(70);
  ASSERT_EQ(ended_.size(), 8u);
  EXPECT_FALSE(ended_[2].notified) << "two addresses, one notify";
  EXPECT_EQ(ended_[4].notified.value().begin, Timestamp(40));
  EXPECT_EQ(ended_[6].notified.value().begin, Timestamp(63));
  EXPECT_EQ(path_.notifies_ambiguous(), 1u);
}

TEST_F(RequestPathTest, WhereTwoAddressesGoTogetherNeitherIsChosen) {
  serve(10);
  for (std::uint64_t at = 20; at < 200; at += 20) {
    write(at, kElsewhere, 0);
    write(at + 3, kQueue0, 0);
    serve(at + 8);
  }
  for (const RequestSpan& span : ended_) EXPECT_FALSE(span.notified);
  EXPECT_EQ(path_.notifies_ambiguous(), 9u);
}

TEST_F(RequestPathTest, AWriteThatQemuServesIsNoCandidate) {
  learn();
  see(exit(60));
  see(make(61, 0, kVcpu0, KvmDetail{kQueue0, 0, DetailKind::kMmio, Access::kWrite, false}));
  see(to_user(62));
  see(entry(63));
  serve(70);
  EXPECT_FALSE(ended_.at(0).notified);
}

TEST_F(RequestPathTest, AKickOfQemusOwnHasNoExit) {
  learn();
  serve(60);
  write(70, kQueue0, 0);
  serve(80);
  EXPECT_FALSE(ended_.at(0).notified);
  EXPECT_EQ(ended_.at(2).notified.value().begin, Timestamp(70));
}

TEST_F(RequestPathTest, OfSeveralWritesTheFirstCarriedItAndTheNextNotifyIsLeftOpen) {
  learn();
  write(60, kQueue0, 0);
  write(63, kQueue0, 0);
  serve(70);
  write(80, kQueue0, 0);
  serve(90);
  EXPECT_EQ(ended_.at(0).notified.value().begin, Timestamp(60));
  EXPECT_FALSE(ended_.at(2).notified) << "the write at 63 may have come after QEMU looked";
}

TEST_F(RequestPathTest, AWriteWithoutAValueMayBeOfAnyQueue) {
  learn();
  write(60, kQueue0, KvmDetail::kNoData);
  serve(70);
  EXPECT_EQ(ended_.at(0).notified.value().begin, Timestamp(60));
}

TEST_F(RequestPathTest, ANotifyWithoutAnInterruptTakesNoOthersInterrupt) {
  serve(10);
  see(make(20, 0, kQemu, SchedSwitch{kQemu, kOtherThread, false, "other"}));
  msi(30);  // of something else, after the thread slept
  serve(40);
  mark(47, "rtc_interrupt x 1");
  msi(50);  // of what the thread did then
  irq(60, IrqStep::kInject, 0x24, 0);
  EXPECT_TRUE(delivered_.empty());
}

TEST_F(RequestPathTest, AnInterruptByAnotherWayThanBeforeIsCountedAndNotJoined) {
  serve(10);
  msi(20, 0x24);
  irq(25, IrqStep::kInject, 0x24, 0);
  EXPECT_EQ(delivered_.size(), 2u);
  serve(30);
  msi(40, 0x31);
  irq(45, IrqStep::kInject, 0x31, 0);
  EXPECT_EQ(delivered_.size(), 2u);
  EXPECT_EQ(path_.interrupts_ambiguous(), 1u);
}

TEST_F(RequestPathTest, ALineIsAcceptedByTheVectorTheControllerGivesIt) {
  serve(10);
  irq(20, IrqStep::kLine, kNoVector, kNoVcpu, kQemu, 11);
  irq(21, IrqStep::kAccept, 0x3b, 0);
  irq(30, IrqStep::kInject, 0x3b, 0);
  EXPECT_EQ(delivered_.size(), 2u);
}

TEST_F(RequestPathTest, OnArm64TheVcpusNextEntryTakesThePendingInterrupt) {
  see(make(5, 0, kVcpu0, KvmStateLoad{0}));
  see(make(6, 0, kVcpu1, KvmStateLoad{1}));
  serve(10);
  irq(20, IrqStep::kLine, kNoVector, kNoVcpu, kQemu, 48);
  irq(21, IrqStep::kPending, kNoVector, 0, kQemu, 48);
  see(make(25, 0, kVcpu1, KvmEntry{kNoVcpu}));
  EXPECT_TRUE(delivered_.empty());
  see(make(30, 0, kVcpu0, KvmEntry{kNoVcpu}));
  ASSERT_EQ(delivered_.size(), 2u);
  EXPECT_EQ(delivered_[0].injected, Timestamp(30));
}

TEST_F(RequestPathTest, ANotifyThatAnIothreadPutsOffIsFollowedByItsQueue) {
  mark(10, "virtio_queue_notify vdev 0xd n 0 vq 0x1");
  mark(11, "virtio_blk_handle_read vdev 0xd req 0xaa sector 0 nsectors 8");
  mark(12, "virtio_blk_handle_write vdev 0xd req 0xbb sector 0 nsectors 8");
  mark(15, "virtio_blk_req_complete vdev 0xd req 0xaa status 0");
  mark(16, "virtio_notify_irqfd vdev 0xd vq 0x1");
  mark(17, "virtio_blk_req_complete vdev 0xd req 0xbb status 0");
  mark(18, "virtio_notify_irqfd vdev 0xd vq 0x1");
  mark(19, "virtio_blk_rw_complete vdev 0xd req 0xcc ret 0");
  mark(20, "virtio_notify_irqfd_deferred_fn vdev 0xd vq 0x1");
  msi(21);
  irq(30, IrqStep::kInject, 0x24, 0);
  EXPECT_EQ(ended_.size(), 3u) << "two requests and the queue's notify";
  EXPECT_EQ(delivered_.size(), 3u);
  EXPECT_EQ(path_.spans().open(), 0u);
}

TEST_F(RequestPathTest, AnEventfdAndAPostedInterruptAreToldOf) {
  serve(10);
  msi(20);
  irq(22, IrqStep::kInject, 0x24, 0);  // kvm_apicv_accept_irq, on the raising thread
  ASSERT_EQ(delivered_.size(), 2u);
  EXPECT_TRUE(delivered_[0].posted);
  EXPECT_FALSE(delivered_[0].request.irqfd);
  delivered_.clear();
  mark(30, "virtio_blk_handle_read vdev 0xd req 0xaa sector 0 nsectors 8");
  mark(35, "virtio_blk_req_complete vdev 0xd req 0xaa status 0");
  mark(36, "virtio_notify_irqfd vdev 0xd vq 0x1");
  msi(40);
  see(entry(45));
  irq(50, IrqStep::kInject, 0x24, kNoVcpu, kVcpu0);
  ASSERT_EQ(delivered_.size(), 1u);
  EXPECT_FALSE(delivered_[0].posted);
  EXPECT_TRUE(delivered_[0].request.irqfd);
}

TEST_F(RequestPathTest, ARequestHasItsWayThroughTheBlockLayer) {
  // Whose a bio is tells the process of the thread that queued it, or the thread alone.
  struct Queued {
    ThreadId process, by;
  };
  for (const Queued& bio : {Queued{ThreadId{40}, kOtherThread}, Queued{ThreadId{}, kQemu},
                            Queued{ThreadId{}, kOtherThread}}) {
    const auto say = [&](std::uint64_t at, std::string_view text) {
      VmmEvent qemu;
      EXPECT_TRUE(reader_.read(text, qemu));
      return path_.on_marker(marker(at, text, kQemu), Marker{text}, qemu.name, bio.process);
    };
    const auto block = [&](std::uint64_t at, BlockStep step) {
      path_.on(make(at, 0, bio.by, BlockIo{step, true, false, 8 << 20, 8, 5000}), {}, bio.process);
    };
    (void)say(1, "virtio_blk_handle_read vdev 0xd req 0xaa sector 0 nsectors 8");
    block(2, BlockStep::kQueued);
    block(3, BlockStep::kIssued);
    block(4, BlockStep::kCompleted);
    const RequestSpan* ended = say(5, "virtio_blk_req_complete vdev 0xd req 0xaa status 0");
    ASSERT_NE(ended, nullptr);
    ASSERT_EQ(ended->block.has_value(), bio.process != ThreadId{} || bio.by == kQemu);
    if (!ended->block) continue;
    EXPECT_EQ(ended->block->queued, Timestamp(2));
    EXPECT_EQ(ended->block->issued, Timestamp(3));
    EXPECT_EQ(ended->block->completed, Timestamp(4));
  }
}

TEST_F(RequestPathTest, AHoleLeavesOpenWhatItMayHaveHidden) {
  learn();
  write(60, kQueue0, 0);
  see(lost(1, 64, 78));
  write(66, kQueue0, 0);
  serve(70);
  msi(80);
  irq(90, IrqStep::kInject, 0x24, 0);
  EXPECT_FALSE(ended_.at(0).notified);
  EXPECT_TRUE(delivered_.empty());
  write(100, kQueue0, 0);
  serve(110);
  write(120, kQueue0, 0);
  serve(130);
  EXPECT_FALSE(ended_.at(2).notified) << "the notify before is not known";
  EXPECT_EQ(ended_.at(4).notified.value().begin, Timestamp(120));
}

}  // namespace
}  // namespace trapline::test
