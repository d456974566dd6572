// --top of every table.
#pragma once

#include <cstddef>
#include <vector>

namespace trapline {

// Keeps the first `top` rows, 0: all. Returns how many it left out.
template <typename Row>
[[nodiscard]] std::size_t keep_first(std::vector<Row>& rows, std::size_t top) {
  if (top == 0 || rows.size() <= top) return 0;
  const std::size_t left_out = rows.size() - top;
  rows.resize(top);
  return left_out;
}

}  // namespace trapline
