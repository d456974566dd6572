#include <gtest/gtest.h>

#include "merge/report/vcpus.h"

namespace trapline::test {
namespace {

VcpuRow busy_row() {
  VcpuRow row;
  row.totals.exits = 300;
  row.totals.parts[static_cast<std::size_t>(Part::kUser)] = 100'000'000;
  row.totals.not_seen_ns = 200'000'000;
  return row;
}

TEST(VcpuTableTest, ExitsPerSecondAreOfTheTimeInWhichExitsWereSeen) {
  ReportData report;
  EXPECT_EQ(exits_per_second(busy_row(), report), 1000u);
  report.counters.gaps = 1;
  EXPECT_EQ(exits_per_second(busy_row(), report), 3000u);
  report.model.from_userspace_exit = true;
  EXPECT_EQ(exits_per_second(busy_row(), report), std::nullopt);
}

TEST(VcpuTableTest, ThereIsNoRateIfALossIsNotAllThatIsNotSeen) {
  ReportData report;
  report.counters.gaps = report.open_exits = report.counters.exits.exit_without_entry = 1;
  EXPECT_EQ(exits_per_second(busy_row(), report), 3000u);
  report.lacks_switches = true;
  EXPECT_EQ(exits_per_second(busy_row(), report), std::nullopt);
  report.lacks_switches = false;
  ++report.counters.exits.exit_without_entry;
  EXPECT_EQ(exits_per_second(busy_row(), report), std::nullopt);
}

}  // namespace
}  // namespace trapline::test
