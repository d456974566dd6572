#include "merge/report/groups.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

ExitSpan span(std::uint64_t start, std::uint64_t total) {
  ExitSpan made;
  made.start = Timestamp(start);
  made.end = Timestamp(start + total);
  made.parts[0] = total;
  return made;
}

TEST(GroupsTest, AKeyIsOneGroupAndItsLongestExitIsKnown) {
  Grouping<ExitGroup> groups(2, 8);
  groups[groups.place_of({{1, 2}})].add(span(100, 5));
  groups[groups.place_of({{1, 2}})].add(span(200, 9));
  groups[groups.place_of({{1, 3}})].add(span(300, 1));
  ASSERT_EQ(groups.rows().size(), 2u);
  EXPECT_EQ(groups.rows()[0].total.count(), 2u);
  EXPECT_EQ(groups.rows()[0].max_at_ns, 200u);
}

TEST(GroupsTest, MoreGroupsThanAreKeptAreFoldedAndCounted) {
  Grouping<ExitGroup> groups(1, 8);
  for (std::uint64_t i = 0; i < 8 + 7; ++i) groups[groups.place_of({{i}})].add(span(i, 1));
  EXPECT_EQ(groups.rows().size(), 8u);
  EXPECT_EQ(groups.other().count(), 7u);
}

}  // namespace
}  // namespace trapline
