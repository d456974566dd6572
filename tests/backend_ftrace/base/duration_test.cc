#include "backend_ftrace/base/duration.h"

#include <gmock/gmock.h>

namespace trapline {
namespace {

using ::testing::HasSubstr;

std::uint64_t ns(std::string_view text, BareNumber bare = BareNumber::kRefused) {
  const auto duration = parse_duration("--slower-than", text, bare);
  EXPECT_TRUE(duration) << text << ": " << duration.error().message;
  return duration.value_or(~std::uint64_t{0});
}
std::string error(std::string_view text, BareNumber bare = BareNumber::kRefused) {
  const auto duration = parse_duration("--slower-than", text, bare);
  EXPECT_FALSE(duration) << text;
  if (duration) return {};
  EXPECT_EQ(duration.error().kind, ErrorKind::kUsage);
  return duration.error().message;
}

TEST(DurationTest, EveryUnit) {
  EXPECT_EQ(ns("7ns"), 7u);
  EXPECT_EQ(ns("500us"), 500'000u);
  EXPECT_EQ(ns("500\u00b5s"), 500'000u);
  EXPECT_EQ(ns("2ms"), 2'000'000u);
  EXPECT_EQ(ns("3s"), 3'000'000'000u);
  EXPECT_EQ(ns("2m"), 120'000'000'000u);
  EXPECT_EQ(ns("2min"), 120'000'000'000u);
  EXPECT_EQ(ns("1h"), 3'600'000'000'000u);
}

TEST(DurationTest, FractionsAreExact) {
  EXPECT_EQ(ns("1.5ms"), 1'500'000u);
  EXPECT_EQ(ns("0.003s"), 3'000'000u);
  EXPECT_EQ(ns("6.792200915s"), 6'792'200'915u);
  EXPECT_EQ(ns("0.5h"), 1'800'000'000'000u);
}

TEST(DurationTest, ABareNumberIsRefusedWhereItsUnitCouldBeMistaken) {
  EXPECT_THAT(error("5"), HasSubstr("--slower-than: '5' has no unit; use 5us, 5ms or 5s"));
  EXPECT_THAT(error("0.003"), HasSubstr("has no unit"));
  EXPECT_EQ(ns("10", BareNumber::kSeconds), 10'000'000'000u);
  EXPECT_EQ(ns("1.5", BareNumber::kSeconds), 1'500'000'000u);
  EXPECT_EQ(ns("500ms", BareNumber::kSeconds), 500'000'000u);
  EXPECT_EQ(ns("0"), 0u);
}

TEST(DurationTest, OtherTextsAreNone) {
  for (const char* text : {"", "s", "5x", "x5ms", "-5ms", "+5ms", "5 ms", "1.ms", ".5ms", "1.2.3s",
                           "0x5ms", "1e3us", "5msms", "nan", "\x1b[31ms"}) {
    EXPECT_THAT(error(text), HasSubstr("is not a duration; use 500us or 2ms")) << text;
  }
  EXPECT_THAT(error("0.5ns"), HasSubstr("finer than a nanosecond"));
  EXPECT_THAT(error("1.0000001us"), HasSubstr("finer than a nanosecond"));
  EXPECT_THAT(error("99999999999999999999s"), HasSubstr("too long"));
  EXPECT_THAT(error("9223372037s"), HasSubstr("too long"));
}

}  // namespace
}  // namespace trapline
