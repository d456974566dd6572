// Who ran for most of the time that vCPUs were ready.
#include "merge/report/waits.h"

#include <gtest/gtest.h>

namespace trapline::test {
namespace {

constexpr Culprit kHog{.kind = CulpritKind::kThread, .thread = ThreadId{7}},
    kOther{.kind = CulpritKind::kThread, .thread = ThreadId{8}}, kIdle{.kind = CulpritKind::kIdle};

CulpritSums sums_of(std::initializer_list<std::pair<Culprit, std::uint64_t>> times) {
  CulpritSums sums;
  for (const auto& [culprit, ns] : times)
    sums.add({Part::kPreempted, {culprit, EventRef(Event{})}, Timestamp(0), Timestamp(ns), {}});
  return sums;
}

TEST(WaitTableTest, TheThreadThatRanMostIsToldWhereNoOtherCanHaveRunLonger) {
  const auto runner =
      sums_of({{kHog, 100}, {kOther, 40}, {unknown_for(Missing::kMigrations), 50}}).runner();
  ASSERT_TRUE(runner);
  EXPECT_EQ(runner->thread, ThreadId{7});
  EXPECT_EQ(runner->ns, 100u);
  EXPECT_EQ(runner->others_at_most_ns, 90u);
  EXPECT_FALSE(
      sums_of({{kHog, 100}, {kOther, 60}, {unknown_for(Missing::kMigrations), 50}}).runner());
}

TEST(WaitTableTest, AnIdleCpuAndEventsThatWereNotRecordedNameNoThread) {
  EXPECT_FALSE(sums_of({}).runner());
  EXPECT_FALSE(sums_of({{kHog, 100}, {kIdle, 200}}).runner());
  for (const Missing missing : {Missing::kLost, Missing::kSelected, Missing::kCpu})
    EXPECT_FALSE(sums_of({{kHog, 100}, {unknown_for(missing), 1}}).runner());
}

}  // namespace
}  // namespace trapline::test
