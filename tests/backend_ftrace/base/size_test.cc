#include "backend_ftrace/base/size.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

std::string size_error(std::string_view text) {
  const auto size = parse_size("--memory", text);
  EXPECT_FALSE(size) << text;
  return size ? "" : size.error().message;
}

TEST(SizeTest, EveryUnitAndBack) {
  for (const auto& [text, bytes] : {std::pair{"64K", std::uint64_t{65'536}},
                                    {"8M", std::uint64_t{8'388'608}},
                                    {"3G", std::uint64_t{3'221'225'472}}}) {
    EXPECT_EQ(parse_size("--memory", text).value_or(0), bytes);
    EXPECT_EQ(size_text(bytes), text);
  }
  EXPECT_EQ(parse_size("--memory", "8192K").value_or(0), 8 * kMib);
  EXPECT_EQ(size_text(1025), "2K");
  EXPECT_EQ(size_text(0), "0K");
}

TEST(SizeTest, RefusesANumberWithoutAUnitAndWhatIsNoSize) {
  EXPECT_EQ(size_error("64"), "--memory: 64 has no unit; use 64K, 64M or 64G");
  for (const char* text : {"", "M", "8MB", "8m", "-1M", "1.5G", "18446744073709551615G"})
    EXPECT_EQ(size_error(text),
              std::string("--memory: '") + text + "' is not a size; use 512K, 8M or 1G");
}

}  // namespace
}  // namespace trapline
