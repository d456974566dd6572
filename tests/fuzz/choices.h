// An input as a row of choices, for targets that make something valid of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trapline::fuzz {

class Choices {
 public:
  explicit Choices(std::string_view input) : left_(input) {}
  [[nodiscard]] bool any() const { return !left_.empty(); }
  // Zero when there are no more.
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  // 0 to `most`, of one byte.
  unsigned up_to(unsigned most) { return byte() % (most + 1); }

 private:
  std::string_view left_;
};

}  // namespace trapline::fuzz
