#include "backend_ftrace/tracetool/event_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>

namespace trapline::tracetool {
namespace {

class EventFormatTest : public ::testing::Test {
 protected:
  void declare(std::string_view declaration) {
    const std::string text = std::string(declaration) + "\n";
    const EventFile file = parse_trace_events(text, "f");
    ASSERT_TRUE(file.errors.empty()) << file.errors[0].text();
    declared_ = Declarations(text);
    parser_.emplace(&declared_);
  }
  bool read(std::string_view text) { return parser_->parse(text, out_) && out_.matched; }

  Declarations declared_;
  std::optional<MarkerParser> parser_;
  ParsedMarker out_;
};

TEST_F(EventFormatTest, ReadsWhatQemuPrints) {
  declare(
      "memory_region_ops_write(int cpu_index, void *mr, uint64_t addr, uint64_t value, unsigned "
      "size,"
      " const char *name) \"cpu %d mr %p addr 0x%\"PRIx64\" value 0x%\"PRIx64\" size %u name "
      "'%s'\"");
  ASSERT_TRUE(
      read("memory_region_ops_write cpu -1 mr 0x55d0a1 addr 0x3f8 value 0x41 size 1 "
           "name 'serial'\n"));
  EXPECT_EQ(out_.count, 6);
  EXPECT_EQ(out_.values[0].as_signed(), -1);
  EXPECT_EQ(out_.values[1].kind, ValueKind::kPointer);
  EXPECT_EQ(out_.values[1].bits, 0x55d0a1u);
  EXPECT_EQ(out_.values[2].bits, 0x3f8u);
  EXPECT_EQ(out_.values[5].text, "serial");
  EXPECT_FALSE(read("memory_region_ops_write cpu -1 mr 0x55d0a1 addr 0x3f8"));
  EXPECT_EQ(out_.event->name, "memory_region_ops_write");
  EXPECT_FALSE(parser_->parse("memory_region_ops_read cpu 0", out_));
  EXPECT_FALSE(parser_->parse("", out_));
}

TEST_F(EventFormatTest, ValuesComeBackInTheArgumentsType) {
  declare("e(int a, uint32_t b, int8_t c, uint8_t d, int64_t e) \"%x %d %x %02x %\"PRId64");
  ASSERT_TRUE(read("e ffffffff -1 ffffffff 0f -9223372036854775808"));
  EXPECT_EQ(out_.values[0].as_signed(), -1);
  EXPECT_EQ(out_.values[1].bits, 0xffffffffu);
  EXPECT_EQ(out_.values[2].as_signed(), -1);
  EXPECT_EQ(out_.values[3].bits, 15u);
  EXPECT_EQ(out_.values[4].as_signed(), INT64_MIN);
  EXPECT_FALSE(read("e ffffffff -1 ffffffff 0f 99999999999999999999999"));
}

TEST_F(EventFormatTest, NumbersWithoutTextBetweenAreSplitByWidth) {
  declare("mac(uint8_t a, uint8_t b, uint16_t c) \"%02x%02x%04x\"");
  ASSERT_TRUE(read("mac 0102beef"));
  EXPECT_EQ(out_.values[0].bits, 1u);
  EXPECT_EQ(out_.values[1].bits, 2u);
  EXPECT_EQ(out_.values[2].bits, 0xbeefu);
  EXPECT_FALSE(read("mac 01"));
}

TEST_F(EventFormatTest, StringsHoldBlanksQuotesAndLookalikes) {
  declare("open(const char *dir, const char *file, int fd) \"dir='%s' file='%s' fd=%d\"");
  ASSERT_TRUE(read("open dir='/a b' file='it's x' fd=3 y' fd=7"));
  EXPECT_EQ(out_.values[0].text, "/a b");
  EXPECT_EQ(out_.values[1].text, "it's x' fd=3 y");
  EXPECT_EQ(out_.values[2].bits, 7u);
  ASSERT_TRUE(read("open dir='' file='' fd=0"));
  EXPECT_EQ(out_.values[0].text, "");
  EXPECT_FALSE(read("open dir='x file='y fd=0"));
}

TEST_F(EventFormatTest, TheLastStringTakesTheRestOrUpToTheClosingText) {
  declare("a(int n, const char *s) \"%d %s\"");
  ASSERT_TRUE(read("a 5 all of this, %s too\n"));
  EXPECT_EQ(out_.values[1].text, "all of this, %s too");
  declare("b(const char *s) \"[%s]\"");
  ASSERT_TRUE(read("b [x] y]"));
  EXPECT_EQ(out_.values[0].text, "x] y");
  EXPECT_FALSE(read("b ["));
  EXPECT_FALSE(read("b "));
}

TEST_F(EventFormatTest, NilNullCharactersAndPadding) {
  declare("a(void *p, char c, const char *s, int w) \"%p %c|%8s|%4d\"");
  ASSERT_TRUE(read("a (nil) x|  (null)|  -3"));
  EXPECT_EQ(out_.values[0].bits, 0u);
  EXPECT_EQ(out_.values[1].bits, static_cast<unsigned char>('x'));
  EXPECT_EQ(out_.values[2].text, "(null)");
  EXPECT_EQ(out_.values[3].as_signed(), -3);
  declare("b(int width, uint64_t v) \"%0*\" PRIx64");
  ASSERT_TRUE(read("b 00ff"));
  EXPECT_EQ(out_.values[0].kind, ValueKind::kAbsent);
  EXPECT_EQ(out_.values[1].bits, 0xffu);
}

TEST_F(EventFormatTest, AnEventWithoutArgumentsMatchesItsTextOnly) {
  declare("reset(void) \"all of it\"");
  EXPECT_TRUE(read("reset all of it\n"));
  EXPECT_FALSE(read("reset all of it."));
  declare("bare(void)");
  EXPECT_TRUE(read("bare \n"));
  EXPECT_TRUE(read("bare"));
}

TEST_F(EventFormatTest, HostileTextCostsLinearTime) {
  declare("e(const char *a, const char *b, const char *c, const char *d) \"%s a %s a %s a %s b\"");
  std::string text = "e ";
  for (int i = 0; i < 200'000; ++i) text += " a";
  EXPECT_FALSE(read(text));
  EXPECT_TRUE(read(text + " b"));
}

}  // namespace
}  // namespace trapline::tracetool
