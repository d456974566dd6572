#include "merge/report/dimensions.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

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

TEST(ShownKeyTest, WhatIsNotKnownIsSaid) {
  EXPECT_EQ(shown_key("io / -", "reason,device"), "io / no device");
  EXPECT_EQ(shown_key("- / -", "device,blocked-on"), "no device / no wait");
  EXPECT_EQ(shown_key("a - b / rtc", "detail,device"), "a - b / rtc");
  EXPECT_EQ(shown_key("-", ""), "not known");
  EXPECT_EQ(shown_key("a / b / c", "reason,device"), "a / b / c");  // a name has the mark
}

}  // namespace
}  // namespace trapline
