// The sentence above a report, of reports made by hand.
#include <gmock/gmock.h>

#include <sstream>

#include "merge/explain/stalls.h"
#include "merge/render/print.h"
#include "merge/report/report.h"
#include "merge/report/run.h"
#include "merge/report/table_kinds.h"

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

TEST(FindingTest, AllSharesAreOfTheBusyTime) {
  ReportData report = report_of_one();
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0% (io alone: 30.0%)"));
  report.cost_ns = 400;  // exits that a loss cuts are in no row
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0% (io alone: at least 30.0%)"));
  report.costliest_ns = 100;
  EXPECT_THAT(finding_text(report), HasSubstr("exits cost 60.0%; "));
}

TEST(FindingTest, TheLevelOfAnExitIsNotNamedAsItsCause) {
  ReportData report = report_of_one();
  report.by = "nested";
  report.costliest = "guest";
  EXPECT_THAT(finding_text(report), Not(HasSubstr("alone")));
}

TEST(FindingTest, WhoRanInsteadIsNamedWhereTheEventsProveIt) {
  ReportData report = report_of_one();
  VcpuTotals& totals = report.vcpus.front().totals;
  totals.parts[static_cast<std::size_t>(Part::kPreempted)] = 200;
  report.overhead.emplace().add(totals);
  EXPECT_THAT(finding_text(report), HasSubstr("the vCPU waited for a CPU."));  // without --waits
  WaitReport& waits = report.waits.emplace();
  waits.preempted.total_ns = 200;
  waits.ran_most = "hog (tid 7)";
  waits.ran_most_ns = 120;
  waits.others_at_most_ns = 80;
  EXPECT_THAT(finding_text(report),
              HasSubstr("waited for a CPU (for 10.0% hog (tid 7) ran instead)."));
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
  EXPECT_THAT(finding_text(report), HasSubstr("; the vCPU never had to wait"));
  report.counters.gaps = 1;
  EXPECT_THAT(finding_text(report),
              HasSubstr("in the time that was seen the vCPU never had to wait"));
  report.counters.gaps = 0;
  report.vcpus.front().totals.not_seen_ns = 100;
  EXPECT_THAT(finding_text(report),
              HasSubstr("in the time that was seen the vCPU never had to wait"));
}

// The text's first lines, without -v.
std::string head_of(const ReportData& data) {
  std::ostringstream out;
  print_text(make_report(data, {}), out, {});
  std::string text = out.str();
  std::size_t end = 0;
  for (int line = 0; line < 8 && end != text.npos; ++line) end = text.find('\n', end + 1);
  return text.substr(0, end);
}

TEST(HeadTest, WhatLimitsTheFiguresIsInTheFirstEightLines) {
  ReportData report = report_of_one();
  report.sources = {{{.path = "host.dat", .kind = "trace.dat", .clock = "mono"}}};
  EXPECT_THAT(head_of(report), Not(HasSubstr("host.dat")));
  SourceRow& guest = report.sources.emplace_back();
  guest.path = "guest.dat";
  guest.aligned = {.method = "markers", .error_ns = 14'000};
  EXPECT_THAT(head_of(report), HasSubstr("guest.dat: aligned to ± 14.0 µs\n"));
  guest.aligned.rate_change_ppm = 10;
  EXPECT_THAT(head_of(report), HasSubstr("(assumed)"));
  report.vcpus.front().totals.not_seen_ns = 1000;
  report.counters.gaps = report.counters.gaps_uncounted = 1;
  EXPECT_THAT(head_of(report),
              HasSubstr("LOST: an unknown number of events in 1 loss; 50.0% of the"));
  report.counters.damaged_pages = 2;
  EXPECT_THAT(head_of(report), HasSubstr("DAMAGED: 2 of the recording's pages"));
  report.counters.left_out_events = 7;
  report.counters.left_out_pieces = 1;
  EXPECT_THAT(head_of(report), HasSubstr("LEFT OUT: 7 events"));
  report.missing = {"qemu.log is missing"};
  report.notes = report.missing;
  EXPECT_THAT(head_of(report), HasSubstr("INCOMPLETE: qemu.log"));
  report.open = {"vCPU 0 has not left an exit"};
  EXPECT_THAT(head_of(report), HasSubstr("has not left"));
}

void expect_wholes(const Table& table) {
  for (const Table::Described& column : table.columns)
    if (column.unit == Unit::kShare && !column.title.empty())
      EXPECT_FALSE(column.whole.empty()) << table.key << ": " << column.title;
  if (table.in_text) expect_wholes(*table.in_text);
  if (table.total) expect_wholes(*table.total);
  for (std::size_t row = 0; table.children && row < table.rows; ++row)
    for (const Table& child : table.children(row)) expect_wholes(child);
}

TEST(ShareTest, EachColumnOfSharesCarriesItsWhole) {
  const std::string data = TRAPLINE_TEST_DATA;
  for (const std::string& path :
       {data + "/box/linux-irq.dat", data + "/../merge/tcg/uftrace.trapline"}) {
    PassOptions what;
    what.input.paths = {path};
    ReportOptions options;
    for (const TableKind& kind : table_kinds())
      if (!kind.of_exits || path.ends_with(".dat"))
        options.tables[std::string(kind.option)] = kind.argument.empty() ? "" : "1ms";
    options.by_default = true;
    const auto run = run_report(what, options, {});
    ASSERT_TRUE(run) << run.error().message;
    for (const Table& table : make_report(run->report, {}).tables) expect_wholes(table);
  }
}

}  // namespace
}  // namespace trapline::test
