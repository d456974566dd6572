// Kendall's tau, and which pages two runs faulted on.
#include "merge/compare/touched_pages.h"

#include <gtest/gtest.h>

#include <random>

#include "merge/render/print.h"

namespace trapline {
namespace {

// Counts every pair.
double slow_tau(const std::vector<std::size_t>& order) {
  double sum = 0, pairs = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j, ++pairs) sum += order[i] < order[j] ? 1 : -1;
  }
  return sum / pairs;
}

TEST(KendallTauTest, IsOneForTheSameOrderAndMinusOneForTheReverse) {
  EXPECT_EQ(kendall_tau({}), std::nullopt);
  EXPECT_EQ(kendall_tau({0}), std::nullopt);
  EXPECT_DOUBLE_EQ(*kendall_tau({0, 1, 2, 3}), 1);
  EXPECT_DOUBLE_EQ(*kendall_tau({3, 2, 1, 0}), -1);
}

TEST(KendallTauTest, IsThatOfAllPairs) {
  std::mt19937 random(1);
  for (std::size_t size = 2; size < 60; ++size) {
    std::vector<std::size_t> order(size);
    for (std::size_t i = 0; i < size; ++i) order[i] = 3 * i;  // of pages that others lie between
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_NEAR(*kendall_tau(order), slow_tau(order), 1e-12) << size;
  }
}

TEST(TouchedPagesTest, APageOfBothRunsIsComparedAndTheOthersAreCounted) {
  TouchedPages before, after;
  for (const std::uint64_t address : {0x1000u, 0x2fffu, 0x5000u, 0x1008u}) before.add(address, 10);
  for (const std::uint64_t address : {0x5000u, 0x1000u, 0x9000u}) after.add(address, 7);
  EXPECT_EQ(json_of(page_table(before, after)),
            R"({"tau":-1.0,"unknown_before":0,"unknown_after":0,"rows":[)"
            R"({"key":"in both","pages":2,"before_ns":30,"after_ns":14},)"
            R"({"key":"only before","pages":1,"before_ns":10,"after_ns":null},)"
            R"({"key":"only after","pages":1,"before_ns":null,"after_ns":7}],"left_out":0})");
}

TEST(TouchedPagesTest, PagesOfSeveralVmsAreNotCompared) {
  TouchedPages before, after;
  before.add(0x1000, 10);
  after.add(0x1000, 10);
  after.forget();
  const Table table = page_table(before, after);
  EXPECT_EQ(table.rows, 0u);
  EXPECT_EQ(json_of(table),
            R"({"tau":null,"unknown_before":0,"unknown_after":0,"rows":[],"left_out":0})");
}

TEST(TouchedPagesTest, ARunWithoutAKnownAddressIsNotCompared) {
  TouchedPages before, after;
  before.add(0x1000, 10);
  after.add_unknown();
  EXPECT_EQ(json_of(page_table(before, after)),
            R"({"tau":null,"unknown_before":0,"unknown_after":1,"rows":[],"left_out":0})");
}

TEST(TouchedPagesTest, AnOrderThatDiffersLittleIsNotCalledTheSame) {
  TouchedPages before, after;
  for (std::uint64_t page = 0; page < 300; ++page) {
    before.add(page << 12, 1);
    after.add((page < 2 ? 1 - page : page) << 12, 1);
  }
  const auto said = [](const TouchedPages& one, const TouchedPages& other) {
    return page_table(one, other).after.back().text;
  };
  EXPECT_NE(said(before, after).find("is nearly 1.000"), std::string::npos);
  EXPECT_NE(said(before, before).find("is 1.000"), std::string::npos);
}

}  // namespace
}  // namespace trapline
