// A table on a terminal: the first column is text on the left, the others are numbers on the right.
// Where the terminal is too narrow, columns that may go are left out and a long first cell is cut
// in the middle; in a table whose columns all stay it has a line of its own, whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trapline {

// How a terminal is written to; a file or a pipe is as wide as its lines.
struct TextStyle {
  std::size_t width = std::numeric_limits<std::size_t>::max();
  bool colours = false;
  bool verbose = false, legend = false;  // as Shown::kVerbose and kLegend
  bool tells_dropped = true;             // which columns had no room
};
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kNormal = "\x1b[0m";  // ends the others
// Of the 256 colours, which no theme changes: each is read on black and on white.
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
  struct Column {
    // Implicit, so that a title alone is a column that is never dropped.
    template <typename Title>
    Column(Title&& words) : title(std::forward<Title>(words)) {}  // NOLINT(bugprone-forwarding*)
    std::string title;
    bool text = false;            // on the left
    std::uint8_t drop_order = 0;  // 0: it stays; else those of the lowest come first to their room
    std::string above{};          // a head that neighbours share: "of busy time"
    bool above_may_go = false;    // where there is no room for it
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as titles. `dim`: less important than the others.
  void add(std::vector<std::string> cells, bool dim = false) {
    rows_.push_back({std::move(cells), {}, dim});
  }
  // Highlights a cell of the last row. In a row that is dim, no cell is highlighted.
  void mark(std::size_t column, std::string_view look) {
    rows_.back().looks.emplace_back(column, look);
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

// What is highlighted in a sentence.
struct Emphasis {
  std::string_view label{};  // the label's look
  bool figures = false;      // durations and percentages
};
// Prints the text, broken at blanks; further lines begin under its first word.
void print_wrapped(std::string_view label, const std::string& text, std::ostream& out,
                   const TextStyle& style, const Emphasis& emphasis = {});
inline void print_wrapped(const std::string& text, std::ostream& out, const TextStyle& style,
                          const Emphasis& emphasis = {}) {
  print_wrapped({}, text, out, style, emphasis);
}

// Leaves of the text what is before the last blank within `columns`, or so many of them where there
// is none; returns what is after it.
[[nodiscard]] std::string cut_at_blank(std::string& text, std::size_t columns);
// Returns the text, or its two ends with "…" between them, in so many columns.
[[nodiscard]] std::string cut_in_middle(const std::string& text, std::size_t columns);

}  // namespace trapline
