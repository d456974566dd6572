// The k-way merge, against a stable sort of the same items.
#include "merge/source/merge_heap.h"

#include <gtest/gtest.h>

#include <random>

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

}  // namespace
}  // namespace trapline
