#include "merge/pass/selection.h"

#include <gmock/gmock.h>

#include "merge/report/run.h"

namespace trapline::test {
namespace {

Result<ReportRun> report_from(const std::string& recording, std::string_view from) {
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/" + recording};
  const auto time = parse_time_spec("--from", from);
  EXPECT_TRUE(time);
  what.which.from = {"--from", *time};
  return run_report(what, {}, {});
}

// perf's header says 18.453789527 to 18.479093289, of samples; the first event is at 18.358775633.
TEST(WindowTest, TheTimesInPerfsHeaderDoNotRefuseAPartThatHasSamples) {
  const auto run = report_from("perf/kvm-stat.perf.data", "+26ms");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_NE(run->report.end_ns, run->report.start_ns);
  const auto outside = report_from("perf/kvm-stat.perf.data", "+3600s");
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(outside.error().message,
              testing::HasSubstr("no event lies in that part; the samples go from 18.453789527 to "
                                 "18.479093289 (+0.025303762)"));
}

TEST(WindowTest, APartAfterTheEndIsRefusedWithTheRecordingsInterval) {
  const auto run = report_from("svm-mono.dat", "+3600s");
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, testing::HasSubstr("; the recording goes from "));
}

}  // namespace
}  // namespace trapline::test
