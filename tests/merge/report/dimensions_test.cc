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

}  // namespace
}  // namespace trapline
