#include "merge/record/cgroups.h"

#include <gmock/gmock.h>

namespace trapline::record {
namespace {

TEST(Cgroups, CpuStatOfBothVersionsIsRead) {
  const auto v1 =
      parse_cpu_stat("nr_periods 6\nnr_throttled 2\nthrottled_time 121442534\nnr_bursts 0\n");
  ASSERT_TRUE(v1);
  EXPECT_EQ(v1->times, 2u);
  EXPECT_EQ(v1->ns, 121'442'534u);
  const auto v2 = parse_cpu_stat("usage_usec 9\nnr_periods 6\nnr_throttled 3\nthrottled_usec 7\n");
  ASSERT_TRUE(v2);
  EXPECT_EQ(v2->times, 3u);
  EXPECT_EQ(v2->ns, 7000u);
  EXPECT_EQ(v2->usage_usec, 9u);
  EXPECT_EQ(v1->usage_usec, std::nullopt);
}

TEST(Cgroups, WithoutTheControllerOnlyTheTimeIsCounted) {
  const auto usage = parse_cpu_stat("usage_usec 9\nuser_usec 4\nsystem_usec 5\n");
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->usage_usec, 9u);
  EXPECT_EQ(usage->times, 0u);
  EXPECT_FALSE(parse_cpu_stat(""));
  EXPECT_FALSE(parse_cpu_stat("nr_throttled many\nthrottled_usec 1\n"));
}

TEST(Cgroups, TheOneThatThrottlesIsThatWithTheCpuController) {
  EXPECT_EQ(cpu_cgroup_of("0::/machine/vm1\n"), "/machine/vm1");
  EXPECT_EQ(cpu_cgroup_of("9:cpuset:/set\n4:cpu,cpuacct:/vm1\n0::/machine\n"), "cpu:/vm1");
  EXPECT_EQ(cpu_cgroup_of("3:cpuacct:/vm1\n0::/machine\n"), "/machine");
  EXPECT_EQ(cpu_cgroup_of("4:cpu:/\n0::/machine\n"), "");
  EXPECT_EQ(cpu_cgroup_of("0::/../../else\n"), "");
  EXPECT_EQ(cpu_cgroup_of(""), "");
}

}  // namespace
}  // namespace trapline::record
