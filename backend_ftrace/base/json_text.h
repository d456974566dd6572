// JSON from outside, before a parser sees it.
#pragma once

#include <cstddef>
#include <string_view>

namespace trapline {

inline constexpr std::size_t kDeepestJson = 64;
inline constexpr std::size_t kMostJsonValues = std::size_t{1} << 20;

// Whether the text nests no deeper and holds no more values than that: a parser needs some hundred
// bytes for each. Says nothing of whether it is JSON.
[[nodiscard]] bool is_bounded_json(std::string_view text);

}  // namespace trapline
