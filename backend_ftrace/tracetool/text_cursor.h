// The position of the trace-events parser in its text, and the lexical rules: a backslash at the
// end of a line joins it with the next one; a string or PRI macro at the beginning of a line
// continues the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trapline::tracetool {

[[nodiscard]] constexpr bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
[[nodiscard]] constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  struct Place {
    std::uint32_t line, column;  // from 1
  };
  // Returns an offset's line and column. Fast for offsets not before the last one requested.
  [[nodiscard]] Place place_of(std::size_t offset);

 protected:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_line();
  void skip_blanks();
  void skip_space() {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) ++at_;
  }
  [[nodiscard]] std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // Returns the text at the cursor, for a message.
  [[nodiscard]] std::string here() const;
  // Skips line ends as long as the next line continues the format.
  void skip_to_continuation();
  // Skips lines after an error that only continue the bad declaration, so that they cause no
  // further messages.
  void resume();

  std::string_view text_;
  std::size_t at_ = 0;

 private:
  std::size_t counted_to_ = 0;
  std::uint32_t line_ = 1;
  std::size_t line_start_ = 0;
};

}  // namespace trapline::tracetool
