#include "merge/render/text_table.h"

#include <algorithm>

#include "merge/render/units.h"

namespace trapline {
namespace {

constexpr std::size_t kGap = 2;

void pad(std::string& line, std::size_t columns) { line.append(columns, ' '); }

}  // namespace

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

void TextTable::print(std::ostream& out, const TextStyle& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < titles_.size(); ++column) {
    std::size_t width = text_width(titles_[column]);
    for (const Row& row : rows_) width = std::max(width, text_width(row.cells[column]));
    widths.push_back(width);
  }
  std::size_t numbers = 0;
  for (std::size_t column = 1; column < widths.size(); ++column) numbers += kGap + widths[column];
  const std::size_t room = style.width > numbers ? style.width - numbers : 0;
  widths[0] = std::min(widths[0], std::max(room, text_width(titles_[0])));

  const auto line_of = [&](const std::vector<std::string>& cells, bool first) {
    std::string line = first ? cells[0] : std::string();
    pad(line, widths[0] - std::min(widths[0], text_width(line)));
    for (std::size_t column = 1; column < cells.size(); ++column) {
      pad(line, kGap + widths[column] - text_width(cells[column]));
      line += cells[column];
    }
    return line;
  };
  const auto print_line = [&](const std::string& line, std::string_view colour) {
    if (style.colours && !colour.empty()) {
      out << colour << line << kNormal << '\n';
    } else {
      out << line << '\n';
    }
  };
  print_line(line_of(titles_, true), kBold);
  for (const Row& row : rows_) {
    const std::string_view colour = row.dim ? kDim : std::string_view();
    const bool fits = text_width(row.cells[0]) <= widths[0];
    if (!fits) print_line(row.cells[0], colour);
    print_line(line_of(row.cells, fits), colour);
  }
}

void print_left_out(std::size_t rows, std::ostream& out) {
  if (rows != 0) out << "and " << grouped(rows) << " more (--top)\n";
}

}  // namespace trapline
