// A table on a terminal: the first column is text on the left, the others are numbers on the right.
// A first cell that is wider than what the numbers leave stands on a line of its own, whole.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace trapline {

// How a terminal is written to; plain text otherwise.
struct TextStyle {
  std::size_t width = 80;
  bool colours = false;
};
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kNormal = "\x1b[0m";  // ends the others

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  // As many cells as titles. `dim`: less important than the others.
  void add(std::vector<std::string> cells, bool dim = false) {
    rows_.push_back({std::move(cells), dim});
  }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(std::ostream& out, const TextStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool dim;
  };
  std::vector<std::string> titles_;
  std::vector<Row> rows_;
};

// Below a table: how many rows --top left out of it; nothing where it left none out.
void print_left_out(std::size_t rows, std::ostream& out);

// Columns that the text takes, for UTF-8 whose characters take one each.
[[nodiscard]] std::size_t text_width(std::string_view text);

}  // namespace trapline
