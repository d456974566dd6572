// A table on a terminal: the first column is text on the left, the others are numbers on the right.
// On a narrow terminal, columns that may go are left out and a long first cell is cut in the
// middle; if all columns of a table stay, a long first cell gets a line of its own, whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/report/table.h"

namespace trapline {

// How a terminal is written to; a file or a pipe is as wide as its lines.
struct TextStyle {
  std::size_t width = std::numeric_limits<std::size_t>::max();
  bool colours = false;
  bool verbose = false, legend = false;  // as Shown::kVerbose and kLegend
  bool tells_dropped = true;             // print which columns had no room
};
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kNormal = "\x1b[0m";  // ends any look
// Colours from the 256-colour palette, which no theme changes, legible on black and on white.
inline constexpr std::string_view kAlarm = "\x1b[1;38;5;160m";
inline constexpr std::string_view kGuestLook = "\x1b[38;5;29m";
inline constexpr std::string_view kVmmLook = "\x1b[38;5;130m";
// Returns the look for a part of a time ("kernel", "user", …); bold for any other name.
[[nodiscard]] std::string_view look_of_part(std::string_view name);
// Returns the text in this look, or as it is if the style has no colours.
[[nodiscard]] std::string looking(std::string_view look, std::string_view text,
                                  const TextStyle& style);

class TextTable {
 public:
  // Uses the columns' `title`, `drop_order`, `joined` and `above`. A text (`unit`) is on the left.
  // A head `above` that has no room is left out, unless it is that of shares.
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row with as many cells as titles; returns its number. `dim`: the row is less important
  // than the others.
  std::size_t add(std::vector<std::string> cells, bool dim = false) {
    rows_.push_back({std::move(cells), {}, dim});
    return rows_.size() - 1;
  }
  // Highlights a cell. In a row that is dim, no cell is highlighted.
  void mark(std::size_t row, std::size_t column, std::string_view look) {
    rows_[row].looks.emplace_back(column, look);
  }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Prints the table; returns the columns for which there was no room.
  std::vector<std::size_t> print(std::ostream& out, const TextStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<std::pair<std::size_t, std::string_view>> looks;
    bool dim;
    [[nodiscard]] std::string_view look_of(std::size_t column) const;
  };

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Prints the text, broken at blanks; further lines begin under its first word. `look`: that of the
// label. `figures`: highlights durations and percentages.
void print_wrapped(std::string_view label, const std::string& text, std::ostream& out,
                   const TextStyle& style, std::string_view look = {}, bool figures = false);

// Cuts the text at the last blank within `columns`, or after `columns` characters if there is no
// blank. Returns the rest.
[[nodiscard]] std::string cut_at_blank(std::string& text, std::size_t columns);
// Returns the text, or its two ends with "…" between them, in so many columns.
[[nodiscard]] std::string cut_in_middle(const std::string& text, std::size_t columns);

}  // namespace trapline
