#include "merge/report/report.h"

#include <gmock/gmock.h>

namespace trapline {
namespace {

using testing::ElementsAre;

// A report by reason whose exits took most of their time in `part`.
ReportData report_of(Part part) {
  ReportData report;
  report.by = "reason";
  GroupRow row;
  row.key = "io";
  row.total.add(1000);
  row.parts[static_cast<std::size_t>(part)] = 1000;
  row.largest = "port 0x71 read";
  row.max_at_ns = 12'000'000'345;
  report.total.merge(row);
  report.rows.push_back(row);
  return report;
}

std::vector<std::string> commands(const ReportData& report,
                                  const RecordingWords& words = {"run", ""}) {
  std::vector<std::string> all;
  for (const NextStep& step : next_steps(report, words)) all.push_back(step.command);
  return all;
}

TEST(NextStepsTest, TheLargestPartIsAskedFor) {
  EXPECT_THAT(commands(report_of(Part::kPreempted)),
              ElementsAre("report run --steal", "explain run"));
  EXPECT_THAT(commands(report_of(Part::kBlocked)),
              ElementsAre("report run --waits", "explain run"));
  EXPECT_THAT(commands(report_of(Part::kKernel)),
              ElementsAre("report run --by detail --top 20", "explain run"));
  ReportData with_devices = report_of(Part::kUser);
  with_devices.vmm_events.push_back({"memory_region_ops_read", {}});
  EXPECT_THAT(commands(with_devices), ElementsAre("report run --by device", "explain run"));
}

TEST(NextStepsTest, WhatWasNotRecordedIsNotAskedFor) {
  EXPECT_THAT(commands(report_of(Part::kUser)), ElementsAre("help devices", "explain run"));
  ReportData no_details = report_of(Part::kKernel);
  no_details.rows.front().largest.clear();
  EXPECT_THAT(commands(no_details), ElementsAre("explain run", "timeline run --around max"));
  EXPECT_THAT(commands(ReportData()), ElementsAre());
}

TEST(NextStepsTest, WhatWasAskedForIsNotAskedAgain) {
  ReportData waits = report_of(Part::kPreempted);
  waits.tables_asked.insert("--steal");
  EXPECT_THAT(commands(waits), ElementsAre("explain run", "timeline run --around max"));
  ReportData details = report_of(Part::kKernel);
  details.by = "reason,detail";
  EXPECT_THAT(commands(details), ElementsAre("explain run", "timeline run --around max"));
}

TEST(NextStepsTest, WhereExitsOrWaitsCostATwentiethChangesAreAskedFor) {
  ReportData report = report_of(Part::kKernel);
  report.overhead = Overhead{.guest_ns = 900, .exit_ns = 90, .not_run_ns = 10};
  EXPECT_THAT(commands(report),
              ElementsAre("report run --by detail --top 20", "explain run", "advise run"));
  ReportData little = report;
  little.overhead = Overhead{.guest_ns = 990, .exit_ns = 5, .not_run_ns = 5};
  EXPECT_THAT(commands(little), ElementsAre("report run --by detail --top 20", "explain run"));
  report.exit_filter.reason = "io";  // advise takes no exits
  EXPECT_THAT(commands(report), ElementsAre("report run --by detail --top 20", "explain run"));
}

TEST(NextStepsTest, OfCallsTheirStacksAreAskedFor) {
  ReportData calls = report_of(Part::kUser);
  calls.rows_of = RowsOf::kCalls;
  calls.by = "function";
  calls.rows.front().key = "rtc_read";
  EXPECT_THAT(commands(calls), ElementsAre("report run --by stack --top 20",
                                           "timeline run --from 12.000000345 --to 12.001000345"));
  calls.by = "stack";
  EXPECT_THAT(commands(calls), ElementsAre("timeline run --from 12.000000345 --to 12.001000345"));
}

TEST(NextStepsTest, OfAnIntervalTheLongestExitIsNamedByItsTime) {
  EXPECT_THAT(commands(report_of(Part::kKernel), {"run", " --from 12 --to 13"}),
              ElementsAre("report run --from 12 --to 13 --by detail --top 20",
                          "explain run --around 12.000000345"));
}

}  // namespace
}  // namespace trapline
