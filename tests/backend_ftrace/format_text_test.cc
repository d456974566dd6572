// format_text() against the C library's vsnprintf.
#include "backend_ftrace/format_text.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <climits>
#include <cstring>
#include <string>

namespace trapline {
namespace {

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

int ours(char* out, std::size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = format_text(out, size, format, arguments);
  va_end(arguments);
  return result;
}

template <typename... Values>
void expect_same(const std::string& format, Values... values) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{200}}) {
    char got[200];
    char wanted[200];
    std::memset(got, '~', sizeof got);
    std::memset(wanted, '~', sizeof wanted);
    const int a = ours(got, size, format.c_str(), values...);
    const int b = std::snprintf(wanted, size, format.c_str(), values...);
    ASSERT_EQ(a, b) << format;
    ASSERT_EQ(std::memcmp(got, wanted, sizeof got), 0) << format << ": " << wanted << " / " << got;
  }
}

TEST(FormatText, EveryFlagWidthPrecisionAndLengthOfIntegers) {
  for (unsigned flags = 0; flags < 32; ++flags) {
    std::string start = "[%";
    for (unsigned i = 0; i < 5; ++i) {
      if ((flags >> i & 1) != 0) start += "-0#+ "[i];
    }
    for (const char* width : {"", "1", "9", "30"}) {
      for (const char* precision : {"", ".", ".0", ".3", ".25"}) {
        for (const char conversion : {'d', 'i', 'u', 'x', 'X', 'o'}) {
          const std::string spec = start + width + precision;
          for (const long long value : {0LL, 1LL, -1LL, 9LL, 10LL, 99LL, 100LL, 12345LL, -128LL,
                                        65536LL, LLONG_MIN, LLONG_MAX}) {
            const auto text = [&](const char* length) { return spec + length + conversion + "]"; };
            expect_same(text("hh"), static_cast<int>(value));
            expect_same(text("h"), static_cast<int>(value));
            expect_same(text(""), static_cast<int>(value));
            expect_same(text("l"), static_cast<long>(value));
            expect_same(text("ll"), value);
            expect_same(text("z"), static_cast<std::size_t>(value));
          }
        }
      }
    }
  }
}

TEST(FormatText, StringsCharactersPointersAndLiterals) {
  int object = 0;
  for (const char* spec : {"%s", "%10s", "%-10s", "%.2s", "%10.3s", "%.6s", "%.5s", "%.0s"}) {
    expect_same(spec, "text");
    expect_same(spec, "");
    expect_same(spec, "\xff\xfe longer than the field");
    expect_same(spec, static_cast<const char*>(nullptr));
  }
  for (const char* spec : {"%p", "%20p", "%-20p", "%020p", "%#p", "%+p", "%.20p"}) {
    expect_same(spec, static_cast<const void*>(&object));
    expect_same(spec, static_cast<const void*>(nullptr));
  }
  for (const char* spec : {"%c", "%5c", "%-5c"}) expect_same(spec, 'x');
  expect_same("%c", 0);
  expect_same("100%% of %d", 3);
  expect_same("");
  expect_same("no conversion");
  expect_same("%*d|%-*d|%.*d|%*.*s", 7, 1, 7, 2, 5, 3, 9, 2, "abc");
  expect_same("%*d|%.*d", -7, 1, -5, 3);
}

TEST(FormatText, WhatItDoesNotKnowTheCLibraryPrints) {
  expect_same("%d %f %s", 1, 2.5, "x");
  expect_same("%2$s %1$s", "a", "b");
  expect_same("%ls", L"wide");
  expect_same("%'d", 1234567);
}

}  // namespace
}  // namespace trapline
