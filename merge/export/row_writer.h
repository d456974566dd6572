// Rows of cells, as JSON lines or CSV. Cells are given in the order of the columns.
//
// It is the hot path of `export --format jsonl`: cells go straight into one buffer, which the file
// gets in pieces of 64 KiB.
#pragma once

#include <charconv>
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

enum class RowForm : std::uint8_t { kJsonl, kCsv };

class RowWriter {
 public:
  // Writes the header of CSV. A column's name has at most kMostName bytes.
  RowWriter(RowForm form, OutputFile output, const std::vector<std::string_view>& columns);
  static constexpr std::size_t kMostName = 18;

  void number(std::uint64_t value) { end_cell(std::to_chars(begin_cell(), limit(), value).ptr); }
  void signed_number(std::int64_t value) {
    end_cell(std::to_chars(begin_cell(), limit(), value).ptr);
  }
  void hex(std::uint64_t value);
  void nothing() { text(nothing_); }  // null, or an empty cell
  void number(const std::optional<std::uint64_t>& value) { value ? number(*value) : nothing(); }
  void time(const std::optional<Timestamp>& at) { at ? number(at->ns()) : nothing(); }
  // Nothing for 0: there is none, or it is not known.
  void thread(ThreadId id) {
    id == ThreadId{} ? nothing() : signed_number(static_cast<std::int32_t>(id));
  }
  // `quoted` is what quote() made of a text, or a value that needs no quotes.
  void text(std::string_view quoted) {
    make_room(quoted.size());
    char* at = begin_cell();
    std::memcpy(at, quoted.data(), quoted.size());
    end_cell(at + quoted.size());
  }
  // `count` cells at once, made by cell() and joined.
  void cells(std::string_view text, std::size_t count);
  // Ends the row; every column has had its cell.
  void end();

  [[nodiscard]] std::string quote(std::string_view text) const;
  // A list of numbers, from "1,2".
  [[nodiscard]] std::string list(const std::string& numbers) const {
    return form_ == RowForm::kJsonl ? "[" + numbers + "]" : "\"[" + numbers + "]\"";
  }
  [[nodiscard]] std::string cell(std::size_t column, std::string_view value) const;
  [[nodiscard]] std::string_view nothing_text() const { return nothing_; }
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] bool failed() const { return output_.failed(); }
  [[nodiscard]] Result<void> finish();

 private:
  // What stands before a cell: its length is copied as a constant, which is one instruction.
  struct Key {
    static constexpr std::size_t kSize = 24;
    char text[kSize];
    std::size_t length;
  };
  static constexpr std::size_t kPiece = std::size_t{64} << 10;
  static constexpr std::size_t kMostCell = 64;  // a key and a number

  [[nodiscard]] char* limit() { return buffer_.data() + buffer_.size(); }
  // Room for a cell of so many bytes, and for the next key and number.
  void make_room(std::size_t bytes) {
    if (buffer_.size() - at_ < bytes + 2 * kMostCell) [[unlikely]]
      grow(bytes);
  }
  void grow(std::size_t bytes) { buffer_.resize(buffer_.size() * 2 + bytes); }
  [[nodiscard]] char* begin_cell() {
    make_room(0);
    const Key& key = keys_[column_++];
    char* at = buffer_.data() + at_;
    std::memcpy(at, key.text, Key::kSize);
    return at + key.length;
  }
  void end_cell(const char* at) { at_ = static_cast<std::size_t>(at - buffer_.data()); }

  RowForm form_;
  OutputFile output_;
  std::vector<Key> keys_;
  std::string_view nothing_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, column_ = 0;
  std::uint64_t rows_ = 0;
};

}  // namespace trapline
