#include "merge/render/budget.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "backend_ftrace/base/size.h"
#include "merge/render/ordered_json.h"
#include "merge/render/render.h"
#include "merge/report/run.h"

namespace trapline {
namespace {

TEST(BudgetTest, ASizeThatIsTooSmallIsRefusedWithOneThatWouldDo) {
  PassOptions what;
  what.input.paths = {std::string(TRAPLINE_TEST_DATA) + "/svm-mono.dat"};
  const auto run = run_report(what, {}, {});
  ASSERT_TRUE(run) << run.error().message;
  const auto within = [&run](std::size_t bytes) {
    return report_within(run->report, {"run", ""}, "trapline report run", bytes);
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
  options.halt = options.halt_costs = true;
  const auto run = run_report(what, options, {});
  ASSERT_TRUE(run) << run.error().message;
  const auto cut = report_within(run->report, {"run", ""}, "trapline report run", 1 << 20);
  ASSERT_TRUE(cut) << cut.error().message;
  std::ostringstream whole;
  print_json(run->report, whole);
  const Json rows = Json::parse(whole.str())["halt_costs"];
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(Json::parse(*cut)["halt_costs"], rows);
}

}  // namespace
}  // namespace trapline
