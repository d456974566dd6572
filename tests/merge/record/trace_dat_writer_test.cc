#include "merge/record/trace_dat_writer.h"

#include <gtest/gtest.h>

#include <sstream>

#include "merge/source/kernel_events/event_texts.h"

namespace trapline::record {
namespace {

constexpr const char* kLines =
    "0000000000000000 A fixed_percpu_data\n"
    "ffffffff81000000 T _text\n"
    "ffffffff8149a8a0 t write_marker_to_buffer\n"
    "ffffffff8149aa90 t tracing_mark_write\n"
    "ffffffff8149aaf0 d data\n"
    "ffffffff8149ab00 t tracing_mark_write_next\n"
    "ffffffff82000000 W last\t[module]\n";

std::string symbols(const std::string& lines, bool all) {
  std::istringstream from(lines);
  std::string out;
  append_text_symbols(from, all, out);
  return out;
}

TEST(TraceDatWriter, AFormatPrintsASymbolOrANumber) {
  EXPECT_TRUE(
      kernel_events::prints_symbols("print fmt: \"call_site=%pS ptr=%p\", (void *)REC->call_site"));
  EXPECT_TRUE(kernel_events::prints_symbols("%d %-20ps"));
  EXPECT_TRUE(kernel_events::prints_symbols("100%% %pF"));
  EXPECT_FALSE(kernel_events::prints_symbols("ptr=%p size=%zu"));
  EXPECT_FALSE(kernel_events::prints_symbols("%%ps"));
  EXPECT_FALSE(kernel_events::prints_symbols("ends with %"));
  EXPECT_FALSE(kernel_events::prints_symbols("ends with %p"));
}

TEST(TraceDatWriter, SymbolsForMarkersEndWithTheOneAfterTheirFunction) {
  EXPECT_EQ(symbols(kLines, false),
            "ffffffff81000000 T _text\n"
            "ffffffff8149a8a0 t write_marker_to_buffer\n"
            "ffffffff8149aa90 t tracing_mark_write\n"
            "ffffffff8149ab00 t tracing_mark_write_next\n");
  EXPECT_TRUE(symbols(kLines, true).ends_with("ffffffff82000000 W last\t[module]\n"));
}

TEST(TraceDatWriter, WhereMarkersHaveNoFunctionAllSymbolsAreKept) {
  EXPECT_EQ(symbols("ffff1 T a\nffff2 t b\n", false), "ffff1 T a\nffff2 t b\n");
  EXPECT_TRUE(symbols("ffff1 t tracing_mark_write.isra.0\nffff2 t b\nffff3 t c\n", false)
                  .ends_with("ffff2 t b\n"));
}

TEST(TraceDatWriter, HiddenAddressesAreNoSymbols) {
  EXPECT_EQ(symbols("0000000000000000 T _text\nnonsense\n\n", true), "");
}

}  // namespace
}  // namespace trapline::record
