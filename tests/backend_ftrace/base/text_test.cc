#include "backend_ftrace/base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace trapline {
namespace {

TEST(ParseNumber, TakesDecimalAndHexadecimalAndNothingElse) {
  EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number("0xffffffffffffffff"), UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x", "1k", "18446744073709551616"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
}

TEST(Matches, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("memory_region_ops_*", "memory_region_ops_read"));
  EXPECT_TRUE(matches("*_write", "serial_write"));
  EXPECT_TRUE(matches("*a*b", "xaxxbxb"));
  EXPECT_TRUE(matches("?", "x"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("virtio", "virtio_notify"));
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
  constexpr std::array<std::string_view, 3> kNames{"reason", "device", "function"};
  EXPECT_EQ(nearest("reasn", kNames), "reason");
  EXPECT_EQ(nearest("devcie", kNames), "device");
  EXPECT_EQ(nearest("xyz", kNames), "");
}

TEST(Split, EmptyPartsStay) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,bc,,d", ','), (Parts{"a", "bc", "", "d"}));
  EXPECT_EQ(split("a,", ','), (Parts{"a", ""}));
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split("", ','), Parts{""});
}

TEST(ShellText, AWordThatAShellWouldChangeIsQuoted) {
  EXPECT_EQ(shell_text({"trapline", "report", "run.1/a_b"}), "trapline report run.1/a_b");
  EXPECT_EQ(shell_text({"a b", "", "it's", "$x"}), "'a b' '' 'it'\\''s' '$x'");
}

TEST(Printable, NothingReachesTheTerminalAsAControl) {
  EXPECT_EQ(printable("a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("\xc3("), "\\xc3(");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

}  // namespace
}  // namespace trapline
