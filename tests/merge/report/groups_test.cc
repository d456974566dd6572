#include "merge/report/groups.h"

#include <gtest/gtest.h>

#include <sstream>

#include "merge/render/text_table.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

ExitSpan span(std::uint64_t start, std::uint64_t total) {
  ExitSpan made;
  made.start = Timestamp(start);
  made.end = Timestamp(start + total);
  made.parts[0] = total;
  return made;
}

TEST(GroupsTest, AKeyIsOneGroupAndItsLongestExitIsKnown) {
  Groups groups(2);
  groups.add({{1, 2}}, span(100, 5));
  groups.add({{1, 2}}, span(200, 9));
  groups.add({{1, 3}}, span(300, 1));
  ASSERT_EQ(groups.groups().size(), 2u);
  EXPECT_EQ(groups.groups()[0].row.total.count(), 2u);
  EXPECT_EQ(groups.groups()[0].row.max_at_ns, 200u);
}

TEST(GroupsTest, MoreGroupsThanAreKeptAreFoldedAndCounted) {
  Groups groups(1);
  for (std::uint64_t i = 0; i < Groups::kMost + 7; ++i) groups.add({{i}}, span(i, 1));
  EXPECT_EQ(groups.groups().size(), Groups::kMost);
  EXPECT_EQ(groups.folded(), 7u);
  EXPECT_EQ(groups.other().total.count(), 7u);
}

TEST(DimensionsTest, UnknownOnesAreRefusedWithTheNearest) {
  EXPECT_EQ(parse_dimensions("reason,device")->size(), 2u);
  const auto wrong = parse_dimensions("reason,devise");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("did you mean 'device'"), std::string::npos);
  EXPECT_EQ(wrong.error().message.find("alone"), std::string::npos);
  EXPECT_TRUE(
      parse_dimensions("reason,devise", "span").error().message.ends_with(", and span alone"));
  EXPECT_FALSE(parse_dimensions("reason,reason"));
  EXPECT_FALSE(parse_dimensions(""));
}

TEST(UnitsTest, NumbersHaveThreeDigitsAndAUnitThatSuits) {
  EXPECT_EQ(duration_text(999, false), "999 ns");
  EXPECT_EQ(duration_text(132'000, false), "132 µs");
  EXPECT_EQ(duration_text(1'234'567'890, false), "1.23 s");
  EXPECT_EQ(duration_text(5'000, true), "5.00 kcyc");
  EXPECT_EQ(duration_text(9'996, false), "10.0 µs");
  EXPECT_EQ(duration_text(999'499, false), "999 µs");
  EXPECT_EQ(duration_text(999'500, false), "1.00 ms");
  EXPECT_EQ(duration_text(1'234'000'000'000, false), "1,234 s");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(percent_text(1, 0), "-");
  EXPECT_EQ(percent_text(0, 10'000), "0.0%");
  EXPECT_EQ(percent_text(1, 10'000), "<0.1%");
  EXPECT_EQ(percent_text(5, 10'000), "0.1%");
  EXPECT_EQ(time_text(12'000'000'345, false), "12.000000345");
}

TEST(TextTableTest, AKeyTooWideForTheTerminalStandsOnItsOwnLine) {
  TextTable table({"key", "count"});
  table.add({"a", "1"});
  table.add({"a name that is longer than the terminal is wide", "23"});
  std::ostringstream out;
  table.print(out, {20, false});
  EXPECT_EQ(out.str(),
            "key            count\n"
            "a                  1\n"
            "a name that is longer than the terminal is wide\n"
            "                  23\n");
}

TEST(TextTableTest, ColumnsThatMayGoGoBeforeAKeyIsWrapped) {
  std::vector<TextTable::Column> columns = {"key", "total", "p50", "mean", "about"};
  columns[2].goes = 2;
  columns[3].goes = 3;
  columns[4].goes = 1;
  columns[4].text = true;
  TextTable table(columns);
  table.add({"a key", "1 ns", "2 ns", "3 ns", "rtc"});
  table.add({"b", "4 ns", "5 ns", "6 ns", ""});
  const auto printed = [&table](std::size_t width) {
    std::ostringstream out;
    table.print(out, {width, false});
    return out.str();
  };
  EXPECT_EQ(printed(80),
            "key    total   p50  mean  about\n"
            "a key   1 ns  2 ns  3 ns  rtc\n"
            "b       4 ns  5 ns  6 ns\n");
  EXPECT_EQ(printed(25),
            "key    total   p50  about\n"
            "a key   1 ns  2 ns  rtc\n"
            "b       4 ns  5 ns\n");
  EXPECT_EQ(printed(12),
            "key    total\n"
            "a key   1 ns\n"
            "b       4 ns\n");
  EXPECT_EQ(printed(10),
            "key  total\n"
            "a key\n"
            "      1 ns\n"
            "b     4 ns\n");
}

}  // namespace
}  // namespace trapline
