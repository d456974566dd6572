#include "merge/render/text_table.h"

#include <algorithm>
#include <numeric>

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

std::vector<std::size_t> TextTable::shown(const std::vector<std::size_t>& widths,
                                          std::size_t room) const {
  std::vector<std::size_t> columns(widths.size());
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  const auto goes = [this](std::size_t column) { return columns_[column].goes; };
  while (true) {
    std::size_t width = widths[columns.front()];
    for (std::size_t i = 1; i < columns.size(); ++i) width += kGap + widths[columns[i]];
    const auto first = std::ranges::max_element(columns, {}, goes);
    if (width <= room || goes(*first) == 0) return columns;
    columns.erase(first);
  }
}

void TextTable::print(std::ostream& out, const TextStyle& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = text_width(columns_[column].title);
    for (const Row& row : rows_) width = std::max(width, text_width(row.cells[column]));
    widths.push_back(width);
  }
  const std::vector<std::size_t> columns = shown(widths, style.width);
  std::size_t numbers = 0;
  for (std::size_t i = 1; i < columns.size(); ++i) numbers += kGap + widths[columns[i]];
  const std::size_t room = style.width > numbers ? style.width - numbers : 0;
  widths[0] = std::min(widths[0], std::max(room, text_width(columns_[0].title)));

  const auto line_of = [&](const auto& cell, bool first) {
    std::string line = first ? cell(0) : std::string();
    pad(line, widths[0] - std::min(widths[0], text_width(line)));
    for (std::size_t i = 1; i < columns.size(); ++i) {
      const std::size_t column = columns[i];
      const std::string& text = cell(column);
      pad(line, kGap);
      const std::size_t rest = widths[column] - text_width(text);
      if (!columns_[column].text) pad(line, rest);
      line += text;
      if (columns_[column].text && i + 1 < columns.size()) pad(line, rest);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  const auto print_line = [&](const std::string& line, std::string_view colour) {
    if (style.colours && !colour.empty()) {
      out << colour << line << kNormal << '\n';
    } else {
      out << line << '\n';
    }
  };
  const auto title = [this](std::size_t column) -> const std::string& {
    return columns_[column].title;
  };
  print_line(line_of(title, true), kBold);
  for (const Row& row : rows_) {
    const std::string_view colour = row.dim ? kDim : std::string_view();
    const bool fits = text_width(row.cells[0]) <= widths[0];
    if (!fits) print_line(row.cells[0], colour);
    const auto cell = [&row](std::size_t column) -> const std::string& {
      return row.cells[column];
    };
    print_line(line_of(cell, fits), colour);
  }
}

void print_left_out(std::size_t rows, std::ostream& out) {
  if (rows != 0) out << "and " << grouped(rows) << " more (--top)\n";
}

void print_wrapped(std::string_view label, const std::string& text, std::ostream& out,
                   const TextStyle& style) {
  std::string line(label);
  std::size_t start = 0;
  while (start < text.size()) {
    const auto blank = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, blank - start);
    if (text_width(line) + 1 + text_width(word) > style.width) {
      out << line << '\n';
      line.assign(label.size(), ' ');
    }
    if (!line.empty()) line += ' ';
    line += word;
    start = blank + 1;
  }
  out << line << '\n';
}

}  // namespace trapline
