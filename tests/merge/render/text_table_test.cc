#include "merge/render/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "merge/render/print.h"

namespace trapline {
namespace {

std::vector<Column> titled(std::initializer_list<const char*> titles) {
  std::vector<Column> columns;
  for (const char* title : titles) columns.push_back({.title = title});
  return columns;
}

TEST(TextTableTest, AKeyTooWideForTheTerminalIsBrokenBeforeItsNumbers) {
  TextTable table(titled({"key", "count"}));
  table.add({"a", "1"});
  table.add({"a name that is longer than the terminal is wide", "23"});
  std::ostringstream out;
  (void)table.print(out, {20, false});
  EXPECT_EQ(out.str(),
            "key            count\n"
            "a                  1\n"
            "a name that is\n"
            "  longer than the\n"
            "  terminal is wide\n"
            "                  23\n");
}

TEST(TextTableTest, ColumnsThatMayGoGoBeforeAKeyIsWrapped) {
  std::vector<Column> columns = titled({"key", "total", "p50", "mean", "about"});
  columns[2].drop_order = 2;
  columns[3].drop_order = 3;
  columns[4].drop_order = 1;
  columns[4].unit = Unit::kText;
  TextTable table(columns);
  table.add({"a key", "1 ns", "2 ns", "3 ns", "rtc"});
  table.add({"b", "4 ns", "5 ns", "6 ns", ""});
  const auto printed = [&table](std::size_t width) {
    std::ostringstream out;
    (void)table.print(out, {width, false});
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
  EXPECT_EQ(printed(18),  // "about" has no room, and then "p50" has
            "key    total   p50\n"
            "a key   1 ns  2 ns\n"
            "b       4 ns  5 ns\n");
  EXPECT_EQ(printed(12),
            "key    total\n"
            "a key   1 ns\n"
            "b       4 ns\n");
  EXPECT_EQ(printed(11),
            "key   total\n"
            "a …y   1 ns\n"
            "b      4 ns\n");
}

TEST(TextTableTest, ALongKeyLeavesFiguresTheirRoomAndIsCutInTheMiddle) {
  std::vector<Column> columns = titled({"key", "total", "max"});
  columns[2].drop_order = 1;
  TextTable table(columns);
  table.add({"a key of µ that has more than twenty-four columns", "1 ns", "2 ns"});
  std::ostringstream out;
  (void)table.print(out, {.width = 38});
  EXPECT_EQ(out.str(),
            "key                        total   max\n"
            "a key of µ t…four columns   1 ns  2 ns\n");
}

TEST(TextTableTest, NeighboursShareAHeadAndALongOneEndsWhereTheyDo) {
  std::vector<Column> columns = titled({"key", "total", "share", "kernel", "user"});
  for (const std::size_t share : {2u, 3u, 4u}) columns[share].unit = Unit::kShare;
  columns[2].above = "of busy time";
  columns[3].above = columns[4].above = "of total";
  TextTable table(columns);
  table.add({"a key", "1 ns", "2%", "3%", "4%"});
  std::ostringstream out;
  (void)table.print(out, {});
  EXPECT_EQ(out.str(),
            "       of busy time  of total\n"
            "key    total  share  kernel  user\n"
            "a key   1 ns     2%      3%    4%\n");
}

std::string wrapped(std::string_view label, const std::string& text, const TextStyle& style,
                    std::string_view look = {}, bool figures = false) {
  std::ostringstream out;
  print_wrapped(label, text, out, style, look, figures);
  return out.str();
}

std::string bold(const std::string& text) { return "\x1b[1m" + text + "\x1b[0m"; }

TEST(PrintWrappedTest, DurationsAndPercentagesStandOutAndOtherNumbersDoNot) {
  const std::string text = "vCPU 0 took 83.0 ms (99.9%), 3 pieces of 1,000 ns; at 0x518 <0.1%.";
  EXPECT_EQ(wrapped("", text, {.colours = true}, {}, true),
            "vCPU 0 took " + bold("83.0") + ' ' + bold("ms") + " (" + bold("99.9%") +
                "), 3 pieces of " + bold("1,000") + ' ' + bold("ns") + "; at 0x518 <" +
                bold("0.1%") + ".\n");
  EXPECT_EQ(wrapped("", text, {}, {}, true), text + '\n');
}

TEST(PrintWrappedTest, ColoursTakeNoColumns) {
  const std::string text = "1.00 s and 2.00 s";
  EXPECT_EQ(wrapped("note:", text, {.width = 16}), "note: 1.00 s and\n      2.00 s\n");
  EXPECT_EQ(wrapped("note:", text, {.width = 16, .colours = true}, kBold),
            bold("note:") + " 1.00 s and\n      2.00 s\n");
}

TEST(PrintWrappedTest, AWordThatIsTooLongStandsWhereItIs) {
  EXPECT_EQ(wrapped("", "aaaaaaaaaa bb", {.width = 6}), "aaaaaaaaaa\nbb\n");
}

TEST(CutAtBlankTest, CutsWordsOnlyWhereOneIsTooLongAndCountsCharacters) {
  std::string text = "├ µµµ ab cdef";
  EXPECT_EQ(cut_at_blank(text, 9), "cdef");
  EXPECT_EQ(text, "├ µµµ ab");
  text = "├ µµµµµµµ";
  EXPECT_EQ(cut_at_blank(text, 5), "µµµµ");
  EXPECT_EQ(text, "├ µµµ");
  EXPECT_EQ(cut_at_blank(text, 5), "");
}

TEST(TextTableTest, CellsStandOutInRowsThatAreNotDimAndTheirColumnsStayWide) {
  TextTable table(titled({"key", "max"}));
  table.mark(table.add({"a", "7"}), 1, kAlarm);
  table.mark(table.add({"b", "10"}, true), 1, kAlarm);
  std::ostringstream out;
  EXPECT_THAT(table.print(out, {.colours = true}), testing::IsEmpty());
  EXPECT_EQ(out.str(), bold("key  max") + "\na      " + std::string(kAlarm) +
                           "7\x1b[0m\n\x1b[2mb     10\x1b[0m\n");
}

TEST(TextTableTest, TellsTheColumnsForWhichThereWasNoRoom) {
  std::vector<Column> columns = titled({"key", "one", "two"});
  columns[1].drop_order = 2;
  columns[2].drop_order = 1;
  TextTable table(columns);
  table.add({"a", "1", "2"});
  std::ostringstream out;
  EXPECT_THAT(table.print(out, {.width = 8}), testing::ElementsAre(1));
  EXPECT_EQ(out.str(), "key  two\na      2\n");
}

TEST(PrintTableTest, NamesTheColumnsForWhichThereWasNoRoom) {
  struct Row {
    std::string key;
    std::uint64_t one, two;
  };
  const std::vector<Row> rows = {{"a", 1, 2}};
  TableOf<Row> table({.left_out = 3}, rows, &Row::key);
  table.add({.key = "one_key", .title = "one", .drop_order = 2}, &Row::one);
  table.add({.key = "two_key", .title = "two"}, &Row::two);
  table.titles = {"key"};
  table.after = {{.text = "in its place", .dropped = "one_key"}};
  const auto printed = [&table](std::size_t width) {
    Report report;
    report.tables = {table};
    std::ostringstream out;
    print_text(report, out, {.width = width});
    return out.str();
  };
  EXPECT_EQ(printed(8), "\nkey  two\na      2\nand 3 more (--top)\nin its\nplace\n");
  EXPECT_EQ(printed(80), "\nkey  one  two\na      1    2\nand 3 more (--top)\n");
  table.after.clear();
  EXPECT_THAT(printed(8), testing::HasSubstr("and 3 more (--top)\nnot shown: one;\n"));
  table.titles = {"a key that takes much of the terminal's width for itself alone"};
  EXPECT_THAT(printed(70),
              testing::HasSubstr("not shown: one; a wider terminal or COLUMNS=200 shows them\n"));
}

}  // namespace
}  // namespace trapline
