// The lines of a text file, a block at a time. A line that is longer than `longest` comes in
// pieces, each but the last longer than that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "merge/source/file.h"
#include "merge/source/trace_text/text_line.h"

namespace trapline::trace_text {

class TextLines {
 public:
  // `file` is borrowed. From an offset within a line it begins with the next one.
  explicit TextLines(const File& file, std::uint64_t from = 0,
                     std::size_t longest = kLongestTraceLine);

  // False at the end. The view is valid until the next call.
  [[nodiscard]] bool next(std::string_view& line);
  // Whether the last line had its end.
  [[nodiscard]] bool is_whole() const { return whole_; }
  // The last line is to come again.
  void again() { at_ = last_; }
  // After the last line.
  [[nodiscard]] std::uint64_t offset() const { return begin_ + at_; }
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  bool fill();

  const File* file_;
  std::size_t longest_;
  bool whole_ = false;
  std::string block_;
  std::uint64_t begin_;   // of the block in the file
  std::size_t at_ = 0;    // in the block
  std::size_t last_ = 0;  // of the last line
  Result<void> status_;
};

}  // namespace trapline::trace_text
