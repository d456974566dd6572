#include "merge/render/print.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "backend_ftrace/base/size.h"
#include "merge/render/ordered_json.h"
#include "merge/report/report.h"
#include "merge/report/run.h"

namespace trapline {
namespace {

TEST(BudgetTest, ASizeThatIsTooSmallIsRefusedWithOneThatWouldDo) {
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat"};
  const auto run = run_report(what, {}, {});
  ASSERT_TRUE(run) << run.error().message;
  const auto within = [&run](std::size_t bytes) {
    return report_within(make_report(run->report, {"run", ""}), "trapline report run", bytes);
  };
  const auto refused = within(100);
  ASSERT_FALSE(refused);
  const std::string& message = refused.error().message;
  const std::size_t at = message.find("; give "), end = message.find(" or more");
  ASSERT_NE(at, std::string::npos) << message;
  ASSERT_NE(end, std::string::npos) << message;
  const auto bytes = parse_size("", message.substr(at + 7, end - at - 7));
  ASSERT_TRUE(bytes) << message;
  EXPECT_TRUE(within(*bytes));
}

TEST(BudgetTest, RowsOfHaltsHaveWhatTheyHaveWithoutIt) {
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat"};
  ReportOptions options;
  options.tables["--halt"];
  const auto run = run_report(what, options, {});
  ASSERT_TRUE(run) << run.error().message;
  const Report report = make_report(run->report, {"run", ""});
  const auto cut = report_within(report, "trapline report run", 1 << 20);
  ASSERT_TRUE(cut) << cut.error().message;
  std::ostringstream whole;
  print_json(report, whole);
  const Json rows = Json::parse(whole.str())["tables"]["halt_costs"]["rows"];
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(Json::parse(*cut)["tables"]["halt_costs"]["rows"], rows);
}

}  // namespace
}  // namespace trapline
