// Reads integers from binary data in the byte order of the data.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trapline {

template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swapped(T value) {
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  return value;
}

// Returns the integer at `from`; the caller has checked that sizeof(T) bytes are there.
template <std::unsigned_integral T>
[[nodiscard]] inline T load(const std::byte* from, std::endian order = std::endian::little) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return order == std::endian::native ? value : byte_swapped(value);
}

template <std::unsigned_integral T>
void append(std::string& bytes, T number, std::endian order = std::endian::native) {
  if (order != std::endian::native) number = byte_swapped(number);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Reads forward through untrusted bytes. Every read is checked; after the first one that exceeds
// the data, all fail.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes, std::endian order = std::endian::little)
      : rest_(bytes), order_(order) {}

  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> number() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    return load<T>(bytes->data(), order_);
  }
  // Returns the text up to the next zero byte and consumes both.
  [[nodiscard]] std::optional<std::string_view> c_string() {
    const void* end = rest_.empty() ? nullptr : std::memchr(rest_.data(), 0, rest_.size());
    if (end == nullptr) return fail<std::string_view>();
    const auto length = static_cast<std::size_t>(static_cast<const std::byte*>(end) - rest_.data());
    const auto text = *take(length + 1);
    return std::string_view(reinterpret_cast<const char*>(text.data()), length);
  }
  [[nodiscard]] std::optional<std::span<const std::byte>> take(std::uint64_t size) {
    if (failed_ || size > rest_.size()) return fail<std::span<const std::byte>>();
    const auto bytes = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  template <typename T>
  std::optional<T> fail() {
    failed_ = true;
    rest_ = {};
    return std::nullopt;
  }

  std::span<const std::byte> rest_;
  std::endian order_;
  bool failed_ = false;
};

}  // namespace trapline
