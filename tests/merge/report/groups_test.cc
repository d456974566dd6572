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
  Groups groups(2);
  groups.add({{1, 2}}, span(100, 5));
  groups.add({{1, 2}}, span(200, 9));
  groups.add({{1, 3}}, span(300, 1));
  ASSERT_EQ(groups.groups().size(), 2u);
  EXPECT_EQ(groups.groups()[0].row.total.count(), 2u);
  EXPECT_EQ(groups.groups()[0].row.max_at_ns, 200u);
}

TEST(GroupsTest, MoreGroupsThanAreKeptAreFoldedAndCounted) {
  Groups groups(1);
  for (std::uint64_t i = 0; i < Groups::kMost + 7; ++i) groups.add({{i}}, span(i, 1));
  EXPECT_EQ(groups.groups().size(), Groups::kMost);
  EXPECT_EQ(groups.folded(), 7u);
  EXPECT_EQ(groups.other().total.count(), 7u);
}

}  // namespace
}  // namespace trapline
