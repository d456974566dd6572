// Numbers as text, for what writes some of them for every exit: in half the instructions of
// std::to_chars.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace trapline {

inline constexpr std::size_t kMostDecimal = 20;  // digits

// Writes at most kMostDecimal digits there, and returns their end.
inline char* put_decimal(char* at, std::uint64_t value) {
  static constexpr auto kPairs = [] {
    std::array<char, 200> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i)
      pairs[i] = static_cast<char>('0' + (i % 2 == 0 ? i / 20 : i / 2 % 10));
    return pairs;
  }();
  static constexpr auto kPowers = [] {
    std::array<std::uint64_t, kMostDecimal> powers{};
    std::uint64_t power = 1;
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = power *= 10;
    return powers;
  }();
  // 1233 / 4096 is the logarithm of 2, nearly enough; a power of ten decides.
  const auto about = static_cast<unsigned>(std::bit_width(value | 1)) * 1233 >> 12;
  char* const end = at + about + (value >= kPowers[about] ? 1 : 0);
  char* place = end;
  const auto put = [&place](std::uint64_t pair) {
    place -= 2;
    std::memcpy(place, &kPairs[pair * 2], 2);
  };
  while (value >= 10'000) {
    const std::uint64_t four = value % 10'000;
    value /= 10'000;
    put(four % 100);
    put(four / 100);
  }
  if (value >= 100) {
    put(value % 100);
    value /= 100;
  }
  if (value >= 10) {
    put(value);
  } else {
    *--place = static_cast<char>('0' + value);
  }
  return end;
}

}  // namespace trapline
