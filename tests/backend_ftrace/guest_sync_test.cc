// Guest sync records as text and as the magic no-op's operands.
#include "backend_ftrace/guest_sync.h"

#include <gtest/gtest.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"  // it is C
#include "docs/examples/sync/trapline-noop.h"
#pragma GCC diagnostic pop

namespace trapline {
namespace {

TEST(GuestSyncTest, WhatIsWrittenIsReadBack) {
  GuestSyncRecord record;
  record.series = 4294967295U;
  record.index = 16;
  record.write = GuestWrite{false, 0x80, 0xc0ffee02};
  record.before = GuestReading{7626267073, 22649492922};
  record.after = GuestReading{7626266747, 22649492096};
  const std::string text = format_guest_sync(record);
  EXPECT_EQ(text,
            "trapline: guest 1 4294967295 16 port=0x80:0xc0ffee02 before mono=7626267073 "
            "tsc=22649492922 after mono=7626266747 tsc=22649492096");
  const auto read = parse_guest_sync(text + "\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(format_guest_sync(*read), text);
  EXPECT_EQ(read->write, record.write);
  EXPECT_EQ(read->before, record.before);
  EXPECT_EQ(read->after, record.after);
}

TEST(GuestSyncTest, EveryWayIsReadBack) {
  for (const char* text :
       {"trapline: guest 1 1 0 before mono=1", "trapline: guest 1 1 16 after cntvct=5",
        "trapline: guest 1 1 3 marker", "trapline: guest 1 1 3 mmio=0x9000020:0x7 before time=9",
        "trapline: guest 1 1 3 ptp=1795245359766:1795245359760:55 before mono=5 after mono=6",
        "trapline: guest 1 1 0 before boot=12 tsc=13"}) {
    const auto read = parse_guest_sync(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(format_guest_sync(*read), text);
  }
}

TEST(GuestSyncTest, UnknownWordsAreSkipped) {
  const auto read = parse_guest_sync("trapline: guest 1 1 2 colour=red before mono=5 sun=12");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->before, (GuestReading{5, 0}));
}

TEST(GuestSyncTest, DamagedTextIsNoRecord) {
  for (const char* text :
       {"", "trapline: guest 2 1 0 before mono=1", "trapline: guest 1 ", "trapline: guest 1 1",
        "trapline: guest 1 1 0", "trapline: guest 1 x 0 before mono=1",
        "trapline: guest 1 4294967296 0 before mono=1", "trapline: guest 1 1 0 before mono=",
        "trapline: guest 1 1 0 before mono=1x", "trapline: guest 1 1 0 before mono=1 before mono=2",
        "trapline: guest 1 1 0 port=0x80 before mono=1",
        "trapline: guest 1 1 0 port=0x80:1:2 before mono=1",
        "trapline: guest 1 1 0 port=0x80:0x100000000 before mono=1",
        "trapline: guest 1 1 0 ptp=1:2 before mono=1",
        "trapline: guest 1 1 0 before mono=99999999999999999999"})
    EXPECT_FALSE(parse_guest_sync(text)) << text;
}

TEST(GuestSyncTest, AnyCutOfARecordIsARecordOrNone) {
  const std::string text =
      "trapline: guest 1 12 3 port=0x80:0x66de2a04 before mono=76 tsc=22 after mono=75 tsc=21";
  for (std::size_t size = 0; size < text.size(); ++size)
    if (const auto read = parse_guest_sync(text.substr(0, size))) {
      EXPECT_EQ(read->series, size >= 20 ? 12U : 1U) << size;
    }
}

// The header that guests include says the same as the decoder.
TEST(GuestSyncTest, OperandsOfTheNoOpAreARecord) {
  const std::uint64_t operands[6] = {
      trapline_header(77, 5, TRAPLINE_BEFORE | TRAPLINE_AFTER | TRAPLINE_PORT, TRAPLINE_MONO),
      trapline_write(0x80, trapline_value(77, 5)),
      100,
      200,
      90,
      180};
  const auto record = guest_sync_of(operands, GuestCounter::kCntvct);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->series, 77U);
  EXPECT_EQ(record->index, 5U);
  EXPECT_EQ(record->write, (GuestWrite{false, 0x80, trapline_value(77, 5)}));
  EXPECT_EQ(record->before, (GuestReading{100, 200}));
  EXPECT_EQ(record->after, (GuestReading{90, 180}));
  EXPECT_EQ(record->counter, GuestCounter::kCntvct);
}

TEST(GuestSyncTest, BareMetalHasTheCounterOnly) {
  const std::uint64_t operands[6] = {
      trapline_header(1, 0, TRAPLINE_BEFORE, TRAPLINE_NO_CLOCK), 0, 12345, 200, 0, 0};
  const auto record = guest_sync_of(operands, GuestCounter::kTsc);
  ASSERT_TRUE(record);
  EXPECT_EQ(format_guest_sync(*record), "trapline: guest 1 1 0 before tsc=200");
}

TEST(GuestSyncTest, OperandsThatSayNothingAreNoRecord) {
  for (const std::uint64_t header :
       {std::uint64_t{0}, trapline_header(1, 0, 0, 0), trapline_header(1, 0, 16, 0),
        trapline_header(1, 0, TRAPLINE_BEFORE, 5), ~std::uint64_t{0}}) {
    const std::uint64_t operands[6] = {header, 1, 2, 3, 4, 5};
    EXPECT_FALSE(guest_sync_of(operands, GuestCounter::kTsc)) << header;
  }
}

}  // namespace
}  // namespace trapline
