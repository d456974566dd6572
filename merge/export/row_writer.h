// Rows of cells, as JSON lines (objects, or arrays) or CSV. Cells are given in the order of the
// columns.
//
// RowWriter is the hot path of `export --format jsonl`: cells go straight into one buffer, which is
// written in pieces of 64 KiB. Where a row begins, and after each text, there is room for a key and
// a number of every column, so numbers need not check for room.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/export/output_file.h"
#include "merge/model/event.h"
#include "merge/model/timestamp.h"

namespace trapline {

// Converts numbers to text, for formats that write several of them for each exit. It takes half the
// instructions of std::to_chars.

inline constexpr std::size_t kMostDecimal = 20;  // digits

// Writes at most kMostDecimal digits at `at`, and returns their end.
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
  // The number of bits times 1233 / 4096, nearly log10(2), is about the number of digits. Comparing
  // with a power of ten makes it exact.
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

enum class RowForm : std::uint8_t { kJsonl, kArrays, kCsv };

class RowWriter {
 public:
  // Writes the columns' names first, except for kJsonl. A name has at most kMostName bytes.
  RowWriter(RowForm form, OutputFile output, const std::vector<std::string_view>& columns);
  static constexpr std::size_t kMostName = 18;

  void number(std::uint64_t value) {
    char* at = begin_cell();
    if (value < 10) {  // most times are 0
      *at++ = static_cast<char>('0' + value);
    } else {
      at = put_decimal(at, value);
    }
    at_ = at;
  }
  void signed_number(std::int64_t value) {
    char* at = begin_cell();
    at_ = std::to_chars(at, at + kMostNumber, value).ptr;
  }
  void hex(std::uint64_t value);
  void nothing() {  // writes null, or an empty cell
    char* at = begin_cell();
    std::memcpy(at, "null", 4);
    at_ = at + nothing_.size();
  }
  void number(const std::optional<std::uint64_t>& value) { value ? number(*value) : nothing(); }
  void time(const std::optional<Timestamp>& at) { at ? number(at->ns()) : nothing(); }
  // Writes null or an empty cell for the id 0: there is no thread, or it is not known.
  void thread(ThreadId id) { id == ThreadId{} ? nothing() : signed_number(tid_of(id)); }
  // `quoted` is a result of quote(), or a value that needs no quotes.
  void text(std::string_view quoted) {
    char* at = begin_cell();
    at_ = at;
    add(quoted);
  }
  // Writes `count` cells at once; `text` is what cell() made of each, joined.
  void cells(std::string_view text, std::size_t count) {
    add(text);
    key_ += count;
  }
  // Ends the row. Every column must have its cell.
  void end();

  [[nodiscard]] std::string quote(std::string_view text) const;
  [[nodiscard]] std::string cell(std::size_t column, std::string_view value) const;
  [[nodiscard]] std::string_view nothing_text() const { return nothing_; }
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] bool failed() const { return output_.failed(); }
  [[nodiscard]] Result<void> finish();

 private:
  // The text before a cell. Always copied in full (kSize bytes), which needs no call of memcpy.
  struct Key {
    static constexpr std::size_t kSize = 24;
    char text[kSize];
    std::size_t length;
  };
  static constexpr std::size_t kPiece = std::size_t{64} << 10;
  static constexpr std::size_t kMostNumber = 24, kMostCell = Key::kSize + kMostNumber;

  void add(std::string_view bytes) {
    if (limit_ - at_ < static_cast<std::ptrdiff_t>(bytes.size())) [[unlikely]]
      grow(bytes.size());
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void grow(std::size_t bytes);
  void write_out();
  [[nodiscard]] char* begin_cell() {
    const Key& key = *key_++;
    std::memcpy(at_, key.text, Key::kSize);
    return at_ + key.length;
  }

  RowForm form_;
  OutputFile output_;
  std::vector<Key> keys_;
  const Key* key_ = nullptr;  // the key of the next cell
  std::string_view nothing_;
  std::vector<char> buffer_;
  char* at_ = nullptr;     // where the next byte goes in buffer_
  char* limit_ = nullptr;  // after this, there is only room for numbers
  std::uint64_t rows_ = 0;
};

}  // namespace trapline
