#include "merge/export/row_writer.h"

#include <cassert>

#include "backend_ftrace/base/quoted_text.h"

namespace trapline {

RowWriter::RowWriter(RowForm form, OutputFile output, const std::vector<std::string_view>& columns)
    : form_(form),
      output_(std::move(output)),
      nothing_(form == RowForm::kJsonl ? "null" : ""),
      buffer_(2 * kPiece) {
  std::string header;
  for (const std::string_view column : columns) {
    assert(column.size() <= kMostName);
    std::string text = keys_.empty() ? "" : ",";
    if (form == RowForm::kJsonl)
      text = (keys_.empty() ? "{\"" : ",\"") + std::string(column) + "\":";
    Key key{{}, text.size()};
    text.copy(key.text, Key::kSize);
    keys_.push_back(key);
    header += (header.empty() ? "" : ",") + std::string(column);
  }
  if (form == RowForm::kCsv) output_.write(header + "\n");
}

void RowWriter::hex(std::uint64_t value) {
  char* at = begin_cell();
  if (form_ == RowForm::kJsonl) *at++ = '"';
  *at++ = '0';
  *at++ = 'x';
  at = std::to_chars(at, limit(), value, 16).ptr;
  if (form_ == RowForm::kJsonl) *at++ = '"';
  end_cell(at);
}

void RowWriter::cells(std::string_view text, std::size_t count) {
  make_room(text.size());
  std::memcpy(buffer_.data() + at_, text.data(), text.size());
  at_ += text.size();
  column_ += count;
}

void RowWriter::end() {
  assert(column_ == keys_.size());
  make_room(2);
  if (form_ == RowForm::kJsonl) buffer_[at_++] = '}';
  buffer_[at_++] = '\n';
  column_ = 0;
  ++rows_;
  if (at_ < kPiece) return;
  output_.write({buffer_.data(), at_});
  at_ = 0;
}

std::string RowWriter::quote(std::string_view text) const {
  return form_ == RowForm::kJsonl ? json_string(text) : csv_cell(text);
}

std::string RowWriter::cell(std::size_t column, std::string_view value) const {
  const Key& key = keys_[column];
  return std::string(key.text, key.length).append(value);
}

Result<void> RowWriter::finish() {
  output_.write({buffer_.data(), at_});
  at_ = 0;
  return output_.commit();
}

}  // namespace trapline
