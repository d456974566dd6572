// What a report's text says beside its tables, of reports made by hand.
#include <gmock/gmock.h>

#include <sstream>

#include "merge/render/print.h"
#include "merge/report/report.h"
#include "merge/report/vcpus.h"

namespace trapline::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const ReportData& report) {
  std::ostringstream out;
  print_text(make_report(report, {"run", ""}), out, TextStyle());
  return out.str();
}

TEST(TextTest, WhatDoesNotHeedTheChosenVcpusIsNamed) {
  ReportData report;
  report.by = "reason";
  EXPECT_THAT(text_of(report), Not(HasSubstr("Only the vCPUs")));
  report.vcpu_filter.vcpu = 1;
  EXPECT_THAT(
      text_of(report),
      HasSubstr("Only the vCPUs with --vcpu 1 are counted; the counters are of all vCPUs."));
  report.tables_asked.insert("--irq");
  report.by = "qemu-event";
  EXPECT_THAT(text_of(report),
              HasSubstr("; interrupts, QEMU's events and the counters are of all vCPUs."));
}

TEST(TextTest, RatesOfVcpusThatRanOneAfterAnotherAreNotSummedUp) {
  ReportData report;
  report.by = "reason";
  for (const std::uint64_t begin : {0ull, 2ull}) {
    VcpuRow& row = report.vcpus.emplace_back();
    row.totals.exits = 300;
    row.totals.guest_ns = 1'000'000'000;
    row.totals.begin = Timestamp(begin * 1'000'000'000);
    row.totals.end = Timestamp((begin + 1) * 1'000'000'000);
  }
  EXPECT_EQ(exits_per_second_together(report), std::nullopt);
  report.vcpus[1].totals.begin = Timestamp(50'000'000);
  EXPECT_EQ(exits_per_second_together(report), std::nullopt);
  report.vcpus[1].totals.end = report.vcpus[0].totals.end;
  EXPECT_EQ(exits_per_second_together(report), 600u);
}

}  // namespace
}  // namespace trapline::test
