// The sentence above a report, of reports made by hand.
#include <gmock/gmock.h>

#include <sstream>

#include "merge/explain/stalls.h"
#include "merge/report/report.h"

namespace trapline::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A vCPU that was busy for 1000 ns: 400 in the guest, 600 in exits.
ReportData report_of_one() {
  ReportData report;
  report.by = "reason";
  VcpuRow& vcpu = report.vcpus.emplace_back();
  vcpu.totals.guest_ns = 400;
  vcpu.totals.parts[static_cast<std::size_t>(Part::kKernel)] = 600;
  report.overhead.emplace().add(vcpu.totals);
  report.costliest = "io";
  report.costliest_ns = 300;
  report.cost_ns = 600;
  return report;
}

TEST(FindingTest, TheCostliestRowsShareIsOfWhatExitsCost) {
  ReportData report = report_of_one();
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0% (50.0% of that: io)"));
  report.cost_ns = 400;  // exits that a loss cuts are in no row
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0% (at least 50.0% of that: io)"));
  report.costliest_ns = 100;
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0%; "));
}

TEST(FindingTest, TheLevelOfAnExitIsNotNamedAsItsCause) {
  ReportData report = report_of_one();
  report.by = "nested";
  report.costliest = "guest";
  EXPECT_THAT(finding_text(report), Not(HasSubstr("of that")));
}

TEST(FindingTest, WhoRanInsteadIsNamedWhereTheEventsProveIt) {
  ReportData report = report_of_one();
  VcpuTotals& totals = report.vcpus.front().totals;
  totals.parts[static_cast<std::size_t>(Part::kPreempted)] = 200;
  report.overhead.emplace().add(totals);
  EXPECT_THAT(finding_text(report), HasSubstr("ready and did not run."));  // without --waits
  WaitReport& waits = report.waits.emplace();
  waits.preempted.total_ns = 200;
  waits.ran_most = "hog (tid 7)";
  waits.ran_most_ns = 120;
  waits.others_at_most_ns = 80;
  EXPECT_THAT(finding_text(report),
              HasSubstr("ready and did not run (60.0% of that: hog (tid 7) ran instead)."));
  waits.preempted.total_ns = 150;  // the rest may be another's
  EXPECT_THAT(finding_text(report), Not(HasSubstr("instead")));
  waits.preempted.total_ns = 200;
  report.wait_counters.emplace().cpu_assumed = 1;
  EXPECT_THAT(finding_text(report), Not(HasSubstr("instead")));
  report.wait_counters->cpu_assumed = 0;
  report.counters.gaps = 1;
  EXPECT_THAT(finding_text(report), Not(HasSubstr("instead")));
}

TEST(FindingTest, WhereTimeWasNotSeenNoWaitIsSaidOfTheSeenTimeAlone) {
  ReportData report = report_of_one();
  EXPECT_THAT(finding_text(report), HasSubstr("; no vCPU had to wait"));
  report.counters.gaps = 1;
  EXPECT_THAT(finding_text(report), HasSubstr("in the time that was seen no vCPU had to wait"));
  report.counters.gaps = 0;
  report.vcpus.front().totals.not_seen_ns = 100;
  EXPECT_THAT(finding_text(report), HasSubstr("in the time that was seen no vCPU had to wait"));
}

}  // namespace
}  // namespace trapline::test
