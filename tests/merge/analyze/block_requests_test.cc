#include "merge/analyze/block_requests.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr ThreadId kVmm{50}, kOtherVmm{60}, kNobody{};
constexpr std::uint32_t kDisk = 8 << 20, kPartition = kDisk | 1, kOtherDisk = kDisk | 16;
constexpr std::uint64_t kPlace = 1000;

class BlockRequestsTest : public testing::Test {
 protected:
  void begin(std::uint64_t request, std::uint64_t sector, std::uint64_t sectors = 8,
             bool write = false) {
    blocks_.begin(kVmm, request, {write, sector, sectors});
  }
  void see(std::uint64_t at, BlockStep step, std::uint64_t sector, std::uint32_t sectors,
           ThreadId process, std::uint32_t device, bool write) {
    const BlockIo block{step, !write, write, device, sectors, sector};
    blocks_.on(make(at, 0, kOtherThread, block), block, process);
  }
  void bio(std::uint64_t at, std::uint64_t sector, std::uint32_t sectors = 8,
           ThreadId process = kVmm, std::uint32_t device = kDisk, bool write = false) {
    see(at, BlockStep::kQueued, sector, sectors, process, device, write);
  }
  // By any thread, as the kernel does.
  void issue(std::uint64_t at, std::uint64_t sector, std::uint32_t sectors = 8,
             std::uint32_t device = kDisk) {
    see(at, BlockStep::kIssued, sector, sectors, kNobody, device, false);
  }
  void complete(std::uint64_t at, std::uint64_t sector, std::uint32_t sectors = 8,
                std::uint32_t device = kDisk) {
    see(at, BlockStep::kCompleted, sector, sectors, kNobody, device, false);
  }
  void transfer(std::uint64_t at, std::uint64_t sector) {
    bio(at, sector);
    issue(at + 1, sector);
    complete(at + 2, sector);
  }
  // "queued issued completed", "-" where the way is not known.
  std::string end(std::uint64_t request) {
    const auto times = blocks_.end(kVmm, request);
    if (!times) return "-";
    const std::string queued = times->queued ? std::to_string(times->queued->ns()) : "?";
    return queued + " " + std::to_string(times->issued.ns()) + " " +
           std::to_string(times->completed.ns());
  }
  BlockRequests blocks_;
};

TEST_F(BlockRequestsTest, TheOnlyOpenRequestHasTheBiosOfItsProcess) {
  begin(1, 0);
  bio(10, kPlace);
  issue(12, kPlace);
  complete(20, kPlace);
  EXPECT_EQ(end(1), "10 12 20");
}

TEST_F(BlockRequestsTest, OthersBiosAreNotItsOwn) {
  begin(1, 0);
  bio(5, 5000, 8, kOtherVmm);
  bio(6, 6000, 8, kNobody);
  bio(7, 7000, 8, kVmm, kDisk, true);  // a write
  issue(8, 5000);
  complete(9, 5000);
  transfer(10, kPlace);
  EXPECT_EQ(end(1), "10 11 12");
}

TEST_F(BlockRequestsTest, SeveralBiosLastFromTheFirstToTheLast) {
  begin(1, 0, 16);
  bio(10, kPlace);
  bio(11, kPlace + 8);
  issue(12, kPlace);
  issue(13, kPlace + 8);
  complete(30, kPlace + 8);
  complete(40, kPlace);
  EXPECT_EQ(end(1), "10 12 40");
}

TEST_F(BlockRequestsTest, ABioThatTheDiskServesInPiecesEndsWithTheLast) {
  begin(1, 0, 16);
  bio(10, kPlace, 16);
  issue(12, kPlace, 8);
  issue(13, kPlace + 8, 8);
  complete(20, kPlace, 8);
  EXPECT_EQ(end(2), "-");
  complete(25, kPlace + 8, 8);
  EXPECT_EQ(end(1), "10 12 25");
}

TEST_F(BlockRequestsTest, OneRequestOfTheDiskMayHoldSeveralBios) {
  begin(1, 0);
  transfer(2, kPlace);
  EXPECT_EQ(end(1), "2 3 4");
  begin(1, 0);
  begin(2, 8);
  bio(10, kPlace);
  bio(11, kPlace + 8);
  issue(12, kPlace, 16);
  complete(20, kPlace, 16);
  EXPECT_EQ(end(1), "10 12 20");
  EXPECT_EQ(end(2), "11 12 20");
}

TEST_F(BlockRequestsTest, OneBioMayHoldSeveralRequestsThatTheVmmMerged) {
  begin(1, 0);
  transfer(2, kPlace);
  EXPECT_EQ(end(1), "2 3 4");
  begin(1, 0);
  begin(2, 8);
  bio(10, kPlace, 16);
  issue(12, kPlace, 16);
  complete(20, kPlace, 16);
  EXPECT_EQ(end(1), "10 12 20");
  EXPECT_EQ(end(2), "10 12 20");
}

TEST_F(BlockRequestsTest, OfSeveralOpenRequestsThePlaceOfTheImageTells) {
  begin(1, 64);
  transfer(2, kPlace + 64);  // the only one: the image begins at kPlace
  (void)end(1);
  begin(1, 0);
  begin(2, 512);
  transfer(10, kPlace + 512);
  transfer(20, kPlace);
  EXPECT_EQ(end(2), "10 11 12");
  EXPECT_EQ(end(1), "20 21 22");
  EXPECT_EQ(blocks_.ambiguous(), 0u);
}

TEST_F(BlockRequestsTest, ThePlaceIsFoundByEliminationToo) {
  begin(1, 0);
  begin(2, 512);
  transfer(10, kPlace);  // at 1000 or at 488
  EXPECT_EQ(blocks_.ambiguous(), 1u);
  (void)end(1);
  (void)end(2);
  begin(3, 96);
  begin(4, 4096);
  transfer(20, kPlace + 96);  // at 1000, or below 0: 1000 is left
  transfer(30, kPlace + 4096);
  EXPECT_EQ(blocks_.ambiguous(), 1u);
  EXPECT_EQ(end(3), "20 21 22");
  EXPECT_EQ(end(4), "30 31 32");
}

TEST_F(BlockRequestsTest, WhatMayBeOfSeveralIsOfNone) {
  begin(1, 0);
  begin(2, 512);
  transfer(10, kPlace);
  EXPECT_EQ(blocks_.ambiguous(), 1u);
  EXPECT_EQ(end(1), "-");
  EXPECT_EQ(end(2), "-");
}

TEST_F(BlockRequestsTest, ARequestThatEndsBeforeTheDiskDoesHasNoWay) {
  begin(1, 0);
  bio(10, kPlace);
  issue(12, kPlace);
  EXPECT_EQ(end(1), "-");
  complete(20, kPlace);
}

TEST_F(BlockRequestsTest, OfAPartitionTheDiskTellsWhatBecameOfIt) {
  begin(1, 0);
  bio(10, kPlace, 8, kVmm, kPartition);
  issue(11, kPlace, 8, kOtherDisk);
  issue(12, kPlace, 8, kDisk);
  complete(20, kPlace, 8, kDisk);
  complete(30, kPlace, 8, kOtherDisk);
  EXPECT_EQ(end(1), "10 12 20");
}

TEST_F(BlockRequestsTest, WithoutBiosTheThreadThatIssuesTellsWhose) {
  begin(1, 0);
  see(10, BlockStep::kIssued, kPlace, 8, kVmm, kDisk, false);
  complete(20, kPlace);
  EXPECT_EQ(end(1), "? 10 20");
}

TEST_F(BlockRequestsTest, ALossForgetsWhatIsOpen) {
  begin(1, 0);
  bio(10, kPlace);
  blocks_.on_hole();
  issue(12, kPlace);
  complete(20, kPlace);
  EXPECT_EQ(end(1), "-");
}

}  // namespace
}  // namespace trapline::test
