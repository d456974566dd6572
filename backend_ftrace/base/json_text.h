// Checks untrusted JSON before a parser reads it.
#pragma once

#include <cstddef>
#include <string_view>

namespace trapline {

inline constexpr std::size_t kDeepestJson = 64;
inline constexpr std::size_t kMostJsonValues = std::size_t{1} << 20;

// Returns whether the text nests at most kDeepestJson deep and has at most kMostJsonValues values;
// a parser needs some hundred bytes for each. Doesn't check that the text is JSON.
[[nodiscard]] bool is_bounded_json(std::string_view text);

}  // namespace trapline
