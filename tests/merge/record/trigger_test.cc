// The expression of --snapshot-on.
#include "merge/record/trigger.h"

#include <gmock/gmock.h>

namespace trapline::record {
namespace {

using ::testing::HasSubstr;

TEST(TriggerTest, ReadsALimitInAnyUnit) {
  const std::pair<const char*, std::uint64_t> cases[] = {{"exit > 500us", 500'000},
                                                         {"exit>20ns", 20},
                                                         {" exit  >  1.5ms ", 1'500'000},
                                                         {"exit > 2 s", 2'000'000'000},
                                                         {"exit > 0ns", 0}};
  for (const auto& [text, limit] : cases) {
    const auto trigger = parse_trigger(text);
    ASSERT_TRUE(trigger) << text;
    EXPECT_EQ(trigger->longer_than_ns, limit) << text;
    EXPECT_EQ(trigger->reason, "") << text;
    EXPECT_EQ(trigger->text, text);
  }
}

TEST(TriggerTest, ReadsAReason) {
  const auto trigger = parse_trigger("exit(EPT_VIOLATION) > 1ms");
  ASSERT_TRUE(trigger);
  EXPECT_EQ(trigger->reason, "EPT_VIOLATION");
  EXPECT_EQ(trigger->reason_column, 6u);
  EXPECT_EQ(parse_trigger("exit ( class 0x24 ) > 1ms")->reason, "class 0x24");
}

TEST(TriggerTest, ReadsAStall) {
  const auto trigger = parse_trigger("stall > 50ms");
  ASSERT_TRUE(trigger);
  EXPECT_TRUE(trigger->stall);
  EXPECT_EQ(trigger->longer_than_ns, 50'000'000u);
  EXPECT_FALSE(parse_trigger("exit > 50ms")->stall);
}

TEST(TriggerTest, SaysAtWhichColumnItIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "column 1: 'exit' or 'stall' is expected"},
      {"entry > 5us", "column 1: 'exit' or 'stall' is expected"},
      {"exits > 5us", "column 1: 'exit' or 'stall' is expected"},
      {"exit < 5us", "column 6: '>' is expected"},
      {"exit", "column 5: '>' is expected"},
      {"exit >= 5us", "column 7: a time is expected"},
      {"exit > -5us", "column 8: a time is expected"},
      {"exit > 5", "column 9: a unit is expected"},
      {"exit > 5m", "column 9: a unit is expected"},
      {"exit > 5.us", "column 8: this is not a duration"},
      {"exit > 99999999999999999999s", "column 8: this is not a duration"},
      {"exit > 5us and more", "column 12: the end is expected"},
      {"stall(io) > 5us", "column 6: '>' is expected"},
      {"stall > ", "column 9: a time is expected"},
      {"exit(io > 5us", "column 6: a reason and ')' are expected"},
      {"exit( ) > 5us", "column 7: a reason is expected"}};
  for (const auto& [text, message] : cases) {
    const auto trigger = parse_trigger(text);
    ASSERT_FALSE(trigger) << text;
    EXPECT_EQ(trigger.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(trigger.error().message, HasSubstr(message)) << text;
    EXPECT_THAT(trigger.error().message, HasSubstr("'exit > 500us'"));
  }
}

}  // namespace
}  // namespace trapline::record
