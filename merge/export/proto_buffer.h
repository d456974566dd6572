// A protobuf message written into one buffer, field by field, for packets by the million:
// protozero's writers append to a string for each byte, which cost more than all that was written.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trapline {

class ProtoBuffer {
 public:
  using Field = std::uint32_t;

  void add(Field field, std::uint64_t value) {
    make_room(kMostNumber);
    put(field << 3);
    put(value);
  }
  void add_fixed64(Field field, std::uint64_t value) {
    make_room(kMostNumber);
    put(field << 3 | 1);
    std::memcpy(&bytes_[size_], &value, sizeof value);
    size_ += sizeof value;
  }
  void add_double(Field field, double value) {
    add_fixed64(field, std::bit_cast<std::uint64_t>(value));
  }
  void add(Field field, std::string_view text) {
    make_room(kMostNumber + text.size());
    put(field << 3 | 2);
    put(text.size());
    text.copy(&bytes_[size_], text.size());
    size_ += text.size();
  }
  // Fields that were encoded before.
  void add_encoded(std::string_view fields) {
    make_room(fields.size());
    fields.copy(&bytes_[size_], fields.size());
    size_ += fields.size();
  }

  // A message inside: its fields are added up to end(begin(field)). One byte is left for its
  // length; a long message moves when it ends.
  [[nodiscard]] std::size_t begin(Field field) {
    make_room(kMostNumber);
    put(field << 3 | 2);
    return ++size_;
  }
  void end(std::size_t start) {
    const std::size_t length = size_ - start;
    if (length < 0x80) [[likely]] {
      bytes_[start - 1] = static_cast<char>(length);
      return;
    }
    const auto more = static_cast<std::size_t>((std::bit_width(length) - 1) / 7);
    make_room(more);
    std::memmove(&bytes_[start + more], &bytes_[start], length);
    size_ = start - 1;
    put(length);
    size_ += length;
  }

  [[nodiscard]] std::string_view bytes() const { return {bytes_.data(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void clear() { size_ = 0; }

 private:
  static constexpr std::size_t kMostNumber = 16;  // a tag and a number

  void make_room(std::size_t bytes) {
    if (bytes_.size() - size_ < bytes + kMostNumber) [[unlikely]]
      bytes_.resize(2 * bytes_.size() + bytes + 256);
  }
  void put(std::uint64_t number) {
    while (number >= 0x80) {
      bytes_[size_++] = static_cast<char>(number | 0x80);
      number >>= 7;
    }
    bytes_[size_++] = static_cast<char>(number);
  }

  std::vector<char> bytes_;
  std::size_t size_ = 0;
};

}  // namespace trapline
