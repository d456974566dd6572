#include "backend_ftrace/base/size.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::array<std::pair<char, std::uint64_t>, 3> kSizeUnits{
    {{'G', 1024 * kMib}, {'M', kMib}, {'K', kKib}}};

}  // namespace

Result<std::uint64_t> parse_size(std::string_view option, std::string_view text) {
  for (const auto& [suffix, unit] : kSizeUnits) {
    if (text.empty() || text.back() != suffix) continue;
    const auto number = parse_number(text.substr(0, text.size() - 1));
    if (!number || *number > std::numeric_limits<std::uint64_t>::max() / unit) break;
    return *number * unit;
  }
  if (!text.empty() && parse_number(text)) {
    return fail(ErrorKind::kUsage, "{}: {} has no unit; use {}K, {}M or {}G", option, text, text,
                text, text);
  }
  return fail(ErrorKind::kUsage, "{}: '{}' is not a size; use 512K, 8M or 1G", option,
              printable(text));
}

std::string size_text(std::uint64_t bytes) {
  for (const auto& [suffix, unit] : kSizeUnits)
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, suffix);
  return fmt::format("{}K", (bytes + kKib - 1) / kKib);
}

}  // namespace trapline
