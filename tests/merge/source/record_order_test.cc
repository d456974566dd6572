#include "merge/source/perf_data/record_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace trapline::perf_data {
namespace {

struct Given {
  std::uint64_t time;
  std::uint64_t number;  // in the order of add()
};

// Items of a CPU are in order; CPUs and rounds overlap as perf writes them. Each item's data is its
// number, again and again, so that what a temporary file gives back is what was written.
class RecordOrderTest : public ::testing::Test {
 protected:
  void add(RecordOrder& order, std::uint64_t time) {
    if (block_ == nullptr || at_ + kBytes > Block::kSize) {
      if (block_ != nullptr) pool_.release(block_);
      block_ = pool_.take();
      at_ = 0;
    }
    std::byte* data = block_->bytes.get() + at_;
    const std::uint64_t number = given_.size();
    const auto size = static_cast<std::uint32_t>(8 * (1 + number % (kBytes / 8)));
    for (std::uint32_t i = 0; i < size; i += 8) std::memcpy(data + i, &number, 8);
    at_ += kBytes;
    order.add(
        {time, data, block_, size, static_cast<std::uint16_t>(number % 7), Item::Kind::kEvent});
    given_.push_back({time, number});
  }
  void read(RecordOrder& order) {
    for (Item item; order.next(item);) {
      std::uint64_t number = 0;
      std::memcpy(&number, item.data, 8);
      got_.push_back({item.time, number});
      ASSERT_EQ(item.size, 8 * (1 + number % (kBytes / 8)));
      ASSERT_EQ(item.cpu, number % 7);
      ASSERT_EQ(std::memcmp(item.data, item.data + item.size - 8, 8), 0);
    }
  }
  void expect_sorted() {
    std::ranges::stable_sort(given_, {}, &Given::time);
    ASSERT_EQ(got_.size(), given_.size());
    for (std::size_t i = 0; i < got_.size(); ++i) {
      ASSERT_EQ(got_[i].time, given_[i].time) << i;
      ASSERT_EQ(got_[i].number, given_[i].number) << i;
    }
  }

  static constexpr std::size_t kBytes = 128;
  BlockPool pool_;
  Block* block_ = nullptr;
  std::size_t at_ = 0;
  std::vector<Given> given_, got_;
  std::mt19937 random_{1};
};

TEST_F(RecordOrderTest, NothingIsGivenOutBeforeTheNextRoundHasEnded) {
  RecordOrder order(pool_);
  add(order, 100);
  order.end_round();
  Item item;
  EXPECT_FALSE(order.next(item));
  add(order, 50);
  order.end_round();
  ASSERT_TRUE(order.next(item));
  EXPECT_EQ(item.time, 50u);
  ASSERT_TRUE(order.next(item));
  EXPECT_EQ(item.time, 100u);
  EXPECT_FALSE(order.next(item));
  EXPECT_EQ(order.limit(), 100u);
}

TEST_F(RecordOrderTest, RoundsOfSeveralCpusAreSortedAndEqualTimesStayInOrder) {
  RecordOrder order(pool_);
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (int cpu = 0; cpu < 4; ++cpu) {
      for (std::uint64_t i = 0; i < 40; ++i) add(order, 100 * (round + i / 20) + i % 20 * 5);
    }
    order.end_round();
    read(order);
  }
  order.end();
  read(order);
  expect_sorted();
  if (block_ != nullptr) pool_.release(block_);
  EXPECT_EQ(pool_.bytes_in_use(), 0u);
}

TEST_F(RecordOrderTest, WhatMemoryDoesNotHoldGoesThroughATemporaryFile) {
  RecordOrder order(pool_, 384u << 10);
  std::size_t most = 0, spilled = 0;
  for (int i = 0; i < 60'000; ++i) {
    add(order, random_() % 1000 + static_cast<unsigned>(i) / 100 * 10);
    most = std::max(most, pool_.bytes_in_use());
    if (!order.is_full()) continue;
    ++spilled;
    ASSERT_TRUE(order.spill());
  }
  order.end();
  read(order);
  ASSERT_TRUE(order.status());
  expect_sorted();
  EXPECT_GT(spilled, RecordOrder::kMergeAt);  // so that some were merged
  EXPECT_LE(most, 2u << 20);
}

TEST_F(RecordOrderTest, ATemporaryFileThatCannotBeMadeIsAnError) {
  ASSERT_EQ(::setenv("TMPDIR", "/nonexistent", 1), 0);
  RecordOrder order(pool_, 0);
  add(order, 100);
  const auto spilled = order.spill();
  ::unsetenv("TMPDIR");
  ASSERT_FALSE(spilled);
  EXPECT_NE(spilled.error().message.find("TMPDIR"), std::string::npos);
}

}  // namespace
}  // namespace trapline::perf_data
