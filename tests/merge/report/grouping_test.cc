#include "merge/report/grouping.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace trapline {
namespace {

struct Row {
  GroupKey key;
  unsigned count = 0;
};

TEST(GroupingTest, RowsStandInTheOrderInWhichTheirKeysCame) {
  Grouping<Row> rows(2, 8);
  for (const std::uint64_t word : {7u, 3u, 7u, 5u, 3u, 7u})
    ++rows[rows.place_of({{1, word}})].count;
  ASSERT_EQ(rows.rows().size(), 3u);
  EXPECT_EQ(rows.rows()[0].key, (GroupKey{{1, 7}}));
  EXPECT_EQ(rows.rows()[0].count, 3u);
  EXPECT_EQ(rows.rows()[2].count, 1u);
}

TEST(GroupingTest, AHaltIsAnotherRow) {
  Grouping<Row> rows(1, 8);
  EXPECT_NE(rows.place_of({{4}, false}), rows.place_of({{4}, true}));
}

TEST(GroupingTest, KnownKeysAreFoundWhereThereIsNoRoomForNewOnes) {
  Grouping<Row> rows(1, 1000);
  for (std::uint64_t word = 0; word < 1000; ++word) EXPECT_EQ(rows.place_of({{word}}), word);
  EXPECT_EQ(rows.place_of({{1000}}), 1000u);
  EXPECT_EQ(rows.rows().size(), 1000u);
  EXPECT_EQ(rows.place_of({{999}}), 999u);
}

TEST(GroupingTest, WhatIsTakenIsForgotten) {
  Grouping<Row> rows(1, 8);
  ++rows[rows.place_of({{6}})].count;
  EXPECT_EQ(rows.take().size(), 1u);
  EXPECT_EQ(rows.place_of({{6}}), 0u);
  EXPECT_EQ(rows[0].count, 0u);
}

}  // namespace
}  // namespace trapline
