#include "merge/render/text_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trapline {
namespace {

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
