// Damage to recordings, the same for the same seed: byte flips, truncations, lengths set to
// extremes, runs overwritten; half of it where a file's structure is, half anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace trapline::test {

class Mutator {
 public:
  // `points`: offsets where headers, sections and pages begin.
  Mutator(std::string original, std::vector<std::uint64_t> points)
      : original_(std::move(original)), points_(std::move(points)) {}

  [[nodiscard]] std::string mutated(std::uint64_t seed) {
    random_.seed(seed * 0x9e3779b97f4a7c15 + original_.size());
    std::string bytes = original_;
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes; ++i) {
      switch (below(8)) {
        case 0:
        case 1:
        case 2:
          set_extreme(bytes);
          break;
        case 3:
        case 4:
          flip(bytes);
          break;
        case 5:
          overwrite(bytes);
          break;
        case 6:
          copy(bytes);
          break;
        default:
          if (i == 0) bytes.resize(somewhere(bytes));
          break;
      }
      if (bytes.empty()) break;
    }
    return bytes;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  std::size_t somewhere(const std::string& bytes) {
    constexpr std::size_t kNear = 48;
    if (bytes.empty()) return 0;
    std::uint64_t at = below(bytes.size());
    if (below(2) == 0) {
      const std::uint64_t point = points_.empty() ? 0 : points_[below(points_.size())];
      at = point + below(kNear);
    }
    return at < bytes.size() ? at : bytes.size() - 1;
  }
  void flip(std::string& bytes) {
    char& byte = bytes[somewhere(bytes)];
    byte = static_cast<char>(byte ^ (1 << below(8)));
  }
  void set_extreme(std::string& bytes) {
    const std::uint64_t size = bytes.size();
    const std::array<std::uint64_t, 12> values = {0,          1,      0x7f,       0xff,
                                                  0x7fff,     0xffff, 0x7fffffff, 0x80000000,
                                                  0xffffffff, ~0ull,  size,       size - 1};
    const std::uint64_t value = values[below(values.size())];
    const std::size_t width = std::size_t{1} << below(4);
    const std::size_t at = somewhere(bytes) & ~(below(2) == 0 ? width - 1 : 0);
    std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
  }
  void overwrite(std::string& bytes) {
    const std::size_t at = somewhere(bytes);
    const std::size_t count = std::min(1 + below(64), bytes.size() - at);
    for (std::size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(random_());
  }
  void copy(std::string& bytes) {
    const std::size_t from = somewhere(bytes);
    const std::size_t to = somewhere(bytes);
    const std::size_t count = std::min(1 + below(4096), bytes.size() - std::max(from, to));
    std::memmove(bytes.data() + to, bytes.data() + from, count);
  }

  std::string original_;
  std::vector<std::uint64_t> points_;
  std::mt19937_64 random_;
};

}  // namespace trapline::test
