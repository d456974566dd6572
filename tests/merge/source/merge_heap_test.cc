// The k-way merge, against a stable sort of the same items.
#include "merge/source/merge_heap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace trapline {
namespace {

using Item = std::pair<std::uint64_t, std::size_t>;  // time, lane

TEST(MergeHeapTest, AnEmptyHeapIsAfterEverything) {
  MergeHeap heap;
  EXPECT_TRUE(heap.empty());
  EXPECT_TRUE(heap.is_before_top(3, 17));
  EXPECT_TRUE(heap.is_before_top(3, MergeHeap::kNever));
}

TEST(MergeHeapTest, TiesGoToTheLowerLane) {
  MergeHeap heap;
  heap.push(2, 10);
  EXPECT_TRUE(heap.is_before_top(1, 10));
  EXPECT_FALSE(heap.is_before_top(3, 10));
  EXPECT_TRUE(heap.is_before_top(3, 9));
  heap.push(1, 10);
  heap.push(0, 11);
  EXPECT_EQ(heap.top_time(), 10u);
  EXPECT_EQ(heap.pop(), 1u);
  EXPECT_EQ(heap.pop(), 2u);
  EXPECT_EQ(heap.pop(), 0u);
  EXPECT_TRUE(heap.empty());
}

// The ways of using it: every item through the heap, runs of one lane beside it, and these with
// push and pop in one step.
TEST(MergeHeapTest, MergesAsAStableSortDoes) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<std::vector<std::uint64_t>> lanes(1 + random() % 9);
    std::vector<Item> expected;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      std::uint64_t time = 0;
      for (std::size_t count = random() % 40; count > 0; --count) {
        lanes[lane].push_back(time += random() % 4);
        expected.emplace_back(time, lane);
      }
    }
    std::sort(expected.begin(), expected.end());
    for (const int way : {0, 1, 2}) {
      const bool runs = way != 0, at_once = way == 2;
      MergeHeap heap;
      std::vector<std::size_t> at(lanes.size());
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        if (!lanes[lane].empty()) heap.push(lane, lanes[lane][0]);
      }
      std::vector<Item> merged;
      for (std::size_t lane = heap.empty() ? 0 : heap.pop(); merged.size() < expected.size();) {
        do {
          merged.emplace_back(lanes[lane][at[lane]++], lane);
        } while (runs && at[lane] < lanes[lane].size() &&
                 heap.is_before_top(lane, lanes[lane][at[lane]]));
        const bool more = at[lane] < lanes[lane].size();
        if (more && at_once && !heap.empty()) {
          lane = heap.exchange(lane, lanes[lane][at[lane]]);
          continue;
        }
        if (more) heap.push(lane, lanes[lane][at[lane]]);
        if (!heap.empty()) lane = heap.pop();
      }
      EXPECT_TRUE(heap.empty());
      EXPECT_EQ(merged, expected);
    }
  }
}

// Lanes come and go in any order, many at one time, more of them than there were before, and times
// are as far apart as they can be.
TEST(MergeHeapTest, TheTopIsTheEarliestAfterEachStep) {
  std::mt19937 random(6);
  for (int turn = 0; turn < 300; ++turn) {
    const std::size_t lanes = 1 + random() % (turn % 10 == 0 ? 200 : 9);
    const std::uint64_t times = 1 + random() % 20;
    MergeHeap heap;
    std::set<Item> expected;
    std::vector<bool> is_in(lanes);
    for (int step = 0; step < 300; ++step) {
      const std::size_t lane = random() % lanes;
      const std::uint64_t near = random() % times;
      const std::uint64_t time = random() % 20 != 0  ? near
                                 : random() % 2 == 0 ? MergeHeap::kNever - near
                                                     : (std::uint64_t{1} << 58) + near;
      const auto take = [&](std::size_t taken) {
        ASSERT_EQ(taken, expected.begin()->second);
        expected.erase(expected.begin());
        is_in[taken] = false;
      };
      if (expected.empty() || random() % 3 == 0) {
        if (is_in[lane]) continue;
        heap.push(lane, time);
      } else if (!is_in[lane] && !heap.is_before_top(lane, time) && random() % 2 == 0) {
        take(heap.exchange(lane, time));
      } else {
        take(heap.pop());
        continue;
      }
      is_in[lane] = true;
      expected.emplace(time, lane);
      ASSERT_EQ(heap.size(), expected.size());
      ASSERT_EQ(Item(heap.top_time(), heap.top()), *expected.begin());
    }
    while (!heap.empty()) {
      ASSERT_EQ(heap.pop(), expected.begin()->second);
      expected.erase(expected.begin());
    }
    EXPECT_TRUE(expected.empty());
  }
}

}  // namespace
}  // namespace trapline
