// Rows made by hand, as text and JSON have them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/render/ordered_json.h"
#include "merge/render/print.h"
#include "merge/report/common_columns.h"
#include "merge/report/groups.h"
#include "merge/report/report_data.h"
#include "merge/report/slow_exits.h"

namespace trapline::test {
namespace {

GroupRow halts_of(std::uint64_t kernel, std::uint64_t halted) {
  GroupRow row;
  row.key = "hlt";
  row.halts = true;
  row.total.add(kernel + halted);
  row.parts[static_cast<std::size_t>(Part::kKernel)] = kernel;
  row.parts[static_cast<std::size_t>(Part::kHalted)] = halted;
  return row;
}

Table table_of(const GroupRow& row, const ReportData& report) {
  return group_columns({row}, report);
}

// The table's first row as JSON has it.
Json first_row(const Table& table) { return Json::parse(json_of(table)).at("rows").at(0); }

// True if the text has the row's share.
bool tells_cost(const GroupRow& row, const ReportData& report) {
  const Table table = table_of(row, report);
  const auto cost = std::ranges::find(table.columns, "share", &Table::Described::title);
  return cost != table.columns.end() && std::holds_alternative<Share>(cost->value(0));
}

TEST(GroupTableTest, WhatHaltsCostIsNotKnownWhereTheyCountAsAWhole) {
  ReportData report;
  report.model.sched_switch = false;
  const GroupRow whole = halts_of(0, 900);
  EXPECT_FALSE(tells_cost(whole, report));
  const Json json = first_row(table_of(whole, report));
  EXPECT_TRUE(json.at("kernel_ns").is_null());
  EXPECT_TRUE(json.at("user_ns").is_null());
  EXPECT_EQ(json.at("halted_ns"), 900);
  EXPECT_EQ(json.at("total_ns"), 900);
}

TEST(GroupTableTest, WhatHaltsCostIsToldByTheEventsOfTheirWayInAndOut) {
  ReportData report;
  report.model.sched_switch = false;
  const GroupRow woken = halts_of(100, 900);  // kvm_vcpu_wakeup tells
  EXPECT_TRUE(tells_cost(woken, report));
  EXPECT_EQ(first_row(table_of(woken, report)).at("kernel_ns"), 100);
  report.model.sched_switch = true;
  EXPECT_TRUE(tells_cost(halts_of(0, 900), report));
}

TEST(PartTitlesTest, WithoutExitsToUserSpaceTheKernelsTimeMayBeQemus) {
  const auto kernel = [](const States& known) {
    return part_titles(known)[static_cast<std::size_t>(Part::kKernel)];
  };
  States known = States().set();
  EXPECT_EQ(kernel(known), "kernel");
  known.reset(static_cast<std::size_t>(State::kUser));
  EXPECT_EQ(kernel(known), "kernel or QEMU");
  known.reset(static_cast<std::size_t>(State::kKernel));  // nothing is known of either
  EXPECT_EQ(kernel(known), "kernel");
}

TEST(SlowExitTableTest, TheWayInAndOutOfAWholeHaltIsNotKnown) {
  ExitRow row;
  row.span.end = Timestamp(900);
  row.span.parts[static_cast<std::size_t>(Part::kHalted)] = 900;
  ExitModel model;
  model.sched_switch = false;
  const auto json = [&] { return first_row(slow_exit_table({row}, model.known_states(), false)); };
  EXPECT_EQ(json().at("kernel_ns"), 0);
  row.span.halt = true;
  for (const char* part : {"kernel_ns", "user_ns", "preempted_ns", "blocked_ns"})
    EXPECT_TRUE(json().at(part).is_null()) << part;
  EXPECT_EQ(json().at("halted_ns"), 900);
  model.sched_switch = true;
  EXPECT_EQ(json().at("kernel_ns"), 0);
}

}  // namespace
}  // namespace trapline::test
