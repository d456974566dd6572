// The two writers of hot paths: rows of cells, and protobuf messages.
#include <gmock/gmock.h>

#include <filesystem>
#include <ostream>

#include "backend_ftrace/base/text_file.h"
#include "merge/export/perfetto_writer.h"
#include "merge/export/row_writer.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

class RowWriterTest : public testing::Test {
 protected:
  RowWriter make(RowForm form) {
    auto file = OutputFile::create(path_, true);
    return {form, std::move(*file), {"name", "start_ns", "rip"}};
  }
  std::string text() { return *read_text(path_); }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "rows";
};

TEST_F(RowWriterTest, AFileIsWrittenWhereItsLinkLeads) {
  std::filesystem::create_symlink("target", path_);
  EXPECT_FALSE(OutputFile::create(path_, false)) << "it is there";
  auto file = OutputFile::create(path_, true);
  ASSERT_TRUE(file) << file.error().message;
  OutputBuffer buffer(*file);
  std::ostream(&buffer) << "te" << 'x' << "t";
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(*read_text(folder_ / "target"), "text");
}

TEST_F(RowWriterTest, JsonHasAnObjectALine) {
  RowWriter rows = make(RowForm::kJsonl);
  rows.text(rows.quote("a\"<\n"));
  rows.number(18446744073709551615u);
  rows.hex(0xffffffff81000000);
  rows.end();
  rows.nothing();
  rows.signed_number(-1);
  rows.nothing();
  rows.end();
  ASSERT_TRUE(rows.finish());
  EXPECT_EQ(text(),
            "{\"name\":\"a\\\"\\u003c\\\\n\",\"start_ns\":18446744073709551615,\"rip\":"
            "\"0xffffffff81000000\"}\n{\"name\":null,\"start_ns\":-1,\"rip\":null}\n");
  EXPECT_EQ(rows.rows(), 2u);
}

TEST_F(RowWriterTest, ArraysHaveTheNamesOnce) {
  RowWriter rows = make(RowForm::kArrays);
  rows.text(rows.quote("=a\""));
  rows.cells(rows.cell(1, "7") + rows.cell(2, "null"), 2);
  rows.end();
  rows.nothing();
  rows.number(0);
  rows.hex(16);
  rows.end();
  ASSERT_TRUE(rows.finish());
  EXPECT_EQ(text(), "[\"name\",\"start_ns\",\"rip\"]\n[\"=a\\\"\",7,null]\n[null,0,\"0x10\"]\n");
}

TEST_F(RowWriterTest, CsvHasAHeaderAndNoFormula) {
  RowWriter rows = make(RowForm::kCsv);
  rows.text(rows.quote("=1,\"2\""));
  rows.cells(rows.cell(1, "7") + rows.cell(2, ""), 2);
  rows.end();
  ASSERT_TRUE(rows.finish());
  EXPECT_EQ(text(), "name,start_ns,rip\n\"'=1,\"\"2\"\"\",7,\n");
}

TEST_F(RowWriterTest, ATextOfAnyLengthFits) {
  const std::string name(300'000, 'x');
  RowWriter rows = make(RowForm::kCsv);
  for (int i = 0; i < 3; ++i) {
    rows.text(rows.quote(name));
    rows.number(1);
    rows.hex(2);
    rows.end();
  }
  ASSERT_TRUE(rows.finish());
  const std::string row = "\"" + name + "\",1,0x2\n";
  EXPECT_EQ(text(), "name,start_ns,rip\n" + row + row + row);
}

// Numbers look for no room: a text leaves it for them.
TEST_F(RowWriterTest, NumbersFitAfterATextThatFillsTheBuffer) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (std::size_t length = (128u << 10) - 80; length < (128u << 10) + 8; ++length) {
    const std::string name(length, 'x');
    RowWriter rows = make(RowForm::kJsonl);
    rows.text(name);
    rows.number(kMost);
    rows.hex(kMost);
    rows.end();
    ASSERT_TRUE(rows.finish());
    EXPECT_EQ(text(), "{\"name\":" + name +
                          ",\"start_ns\":18446744073709551615,\"rip\":"
                          "\"0xffffffffffffffff\"}\n");
  }
}

TEST(DecimalTest, DigitsAreThoseOfToString) {
  const auto check = [](std::uint64_t value) {
    char digits[kMostDecimal];
    EXPECT_EQ(std::string(digits, put_decimal(digits, value)), std::to_string(value));
  };
  std::uint64_t ten = 1;
  for (unsigned power = 0; power < 64; ++power, ten *= 10) {
    for (const std::uint64_t value : {ten, std::uint64_t{1} << power}) {
      check(value - 1);
      check(value);
      check(value + 1);
    }
  }
  for (std::uint64_t value = 0; value < 100'000; ++value) check(value * 1'000'003);
}

TEST(ProtoBufferTest, NumbersTextsAndMessages) {
  ProtoBuffer out;
  out.add(1, 300);
  out.add(16, std::string_view("ab"));
  out.add_fixed64(2, 1);
  const std::size_t inner = out.begin(3);
  out.add(1, 1);
  out.end(inner);
  using namespace std::string_view_literals;
  EXPECT_EQ(out.bytes(),
            "\x08\xac\x02\x82\x01\x02"
            "ab\x11\x01\0\0\0\0\0\0\0\x1a\x02\x08\x01"sv);
}

TEST(ProtoBufferTest, NumbersOfEachLength) {
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const std::uint64_t number : {(1ull << bits) - 1, 1ull << bits, (1ull << bits) + 1}) {
      ProtoBuffer out;
      out.add(1, number);
      std::string expected = "\x08";
      std::uint64_t left = number;
      for (; left >= 0x80; left >>= 7) expected += static_cast<char>((left & 0x7f) | 0x80);
      EXPECT_EQ(out.bytes(), expected + static_cast<char>(left)) << number;
    }
  }
}

// A message whose length takes more than the byte that was left for it moves.
TEST(ProtoBufferTest, LongMessagesMoveToTheirLength) {
  for (const std::size_t length :
       {0u, 121u, 122u, 123u, 124u, 125u, 126u, 127u, 16'380u, 16'400u, 70'000u}) {
    ProtoBuffer out;
    const std::size_t outer = out.begin(1), inner = out.begin(2);
    const std::string text(length, 'y');
    out.add(3, text);
    out.end(inner);
    out.end(outer);
    out.add(4, 5);
    const auto prefixed = [](int field, const std::string& bytes) {
      std::string all(1, static_cast<char>(field << 3 | 2));
      for (std::size_t left = bytes.size();; left >>= 7) {
        all += static_cast<char>(left < 0x80 ? left : (left & 0x7f) | 0x80);
        if (left < 0x80) break;
      }
      return all + bytes;
    };
    EXPECT_EQ(out.bytes(), prefixed(1, prefixed(2, prefixed(3, text))) + "\x20\x05");
  }
}

}  // namespace
}  // namespace trapline
