#include "backend_ftrace/tracetool/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/tracetool/c_format.h"

namespace trapline::tracetool {

TextCursor::Place TextCursor::place_of(std::size_t offset) {
  offset = std::min(offset, text_.size());
  for (;;) {
    const std::size_t end = text_.find('\n', counted_to_);
    if (end >= offset) break;
    counted_to_ = line_start_ = end + 1;
    ++line_;
  }
  std::uint32_t line = line_;
  std::size_t start = line_start_;
  if (offset < line_start_) {  // an earlier offset in the same declaration
    const std::string_view before = text_.substr(0, offset);
    line = 1 + static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n'));
    start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  }
  return {line, static_cast<std::uint32_t>(offset - start + 1)};
}

void TextCursor::skip_line() { at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1; }

void TextCursor::skip_blanks() {
  for (;;) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (peek() != '\\') return;
    const std::size_t after = text_.find_first_not_of(" \t\r", at_ + 1);
    if (after == std::string_view::npos || text_[after] != '\n') return;
    at_ = after + 1;
  }
}

std::string TextCursor::here() const {
  if (at_ >= text_.size()) return "the end of the file";
  if (text_[at_] == '\n') return "the end of the line";
  return fmt::format("'{}'", text_[at_]);
}

void TextCursor::skip_to_continuation() {
  skip_blanks();
  while (peek() == '\n') {
    const std::size_t next = text_.find_first_not_of(" \t\r\n", at_);
    if (next == std::string_view::npos) return;
    if (text_[next] != '"' && text_[next] != 'P') return;  // usually the next declaration
    std::size_t end = next;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const bool macro = !pri_macro(text_.substr(next, end - next)).empty() &&
                       (end >= text_.size() || text_[end] != '(');
    if (text_[next] != '"' && !macro) return;
    at_ = next;
  }
}

void TextCursor::resume() {
  for (;;) {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) return;
    std::size_t last = end;
    while (last > at_ && is_blank(text_[last - 1])) --last;
    const bool continued = last > at_ && text_[last - 1] == '\\';
    const std::size_t next = text_.find_first_not_of(" \t", end + 1);
    if (!continued && (next == std::string_view::npos || text_[next] != '"')) return;
    at_ = end + 1;
  }
}

}  // namespace trapline::tracetool
