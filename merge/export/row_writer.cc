#include "merge/export/row_writer.h"

#include <cassert>

#include "backend_ftrace/base/quoted_text.h"

namespace trapline {

RowWriter::RowWriter(RowForm form, OutputFile output, const std::vector<std::string_view>& columns)
    : form_(form), output_(std::move(output)), nothing_(form == RowForm::kCsv ? "" : "null") {
  for (const std::string_view column : columns) {
    assert(column.size() <= kMostName);
    std::string text = !keys_.empty() ? "," : form == RowForm::kArrays ? "[" : "";
    if (form == RowForm::kJsonl)
      text = (keys_.empty() ? "{\"" : ",\"") + std::string(column) + "\":";
    Key key{{}, text.size()};
    text.copy(key.text, Key::kSize);
    keys_.push_back(key);
  }
  if (form == RowForm::kCsv) output_.write(fmt::format("{}\n", fmt::join(columns, ",")));
  if (form == RowForm::kArrays)
    output_.write(fmt::format("[\"{}\"]\n", fmt::join(columns, "\",\"")));
  key_ = keys_.data();
  grow(2 * kPiece);
}

// Makes room for a text of `bytes` bytes, and for a number in every column after it.
void RowWriter::grow(std::size_t bytes) {
  const std::size_t numbers = (keys_.size() + 1) * kMostCell;
  const auto used = static_cast<std::size_t>(at_ - buffer_.data());
  buffer_.resize(buffer_.size() + bytes + numbers);
  at_ = buffer_.data() + used;
  limit_ = buffer_.data() + buffer_.size() - numbers;
}

void RowWriter::hex(std::uint64_t value) {
  char* at = begin_cell();
  if (form_ != RowForm::kCsv) *at++ = '"';
  *at++ = '0';
  *at++ = 'x';
  at = std::to_chars(at, at + kMostNumber, value, 16).ptr;
  if (form_ != RowForm::kCsv) *at++ = '"';
  at_ = at;
}

void RowWriter::end() {
  assert(key_ == keys_.data() + keys_.size());
  add(form_ == RowForm::kJsonl ? "}\n" : form_ == RowForm::kArrays ? "]\n" : "\n");
  key_ = keys_.data();
  ++rows_;
  if (static_cast<std::size_t>(at_ - buffer_.data()) >= kPiece) write_out();
}

void RowWriter::write_out() {
  output_.write({buffer_.data(), static_cast<std::size_t>(at_ - buffer_.data())});
  at_ = buffer_.data();
}

std::string RowWriter::quote(std::string_view text) const {
  return form_ == RowForm::kCsv ? csv_cell(text) : json_string(text);
}

std::string RowWriter::cell(std::size_t column, std::string_view value) const {
  const Key& key = keys_[column];
  return std::string(key.text, key.length).append(value);
}

Result<void> RowWriter::finish() {
  write_out();
  return output_.commit();
}

}  // namespace trapline
