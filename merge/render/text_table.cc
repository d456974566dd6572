#include "merge/render/text_table.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "backend_ftrace/base/text.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kFirst = 24;  // columns of a first cell, before others are dropped for it

void pad(std::string& line, std::size_t columns) { line.append(columns, ' '); }

std::string_view without_marks(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("(<"), word.size()));
  return word.substr(0, word.find_last_not_of(").,;:") + 1);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.,") == text.npos;
}

// Returns whether a word is part of a figure, as "6.1%" and both words of "2.26 s" are.
bool is_figure(std::string_view before, std::string_view word, std::string_view after) {
  constexpr std::string_view kUnits[] = {"ns", "µs", "ms", "s", "cyc", "kcyc", "Mcyc", "Gcyc"};
  const auto is_unit = [&kUnits](std::string_view text) {
    return std::ranges::find(kUnits, without_marks(text)) != std::end(kUnits);
  };
  const std::string_view bare = without_marks(word);
  if (bare.ends_with('%')) return is_number(bare.substr(0, bare.size() - 1));
  return (is_number(bare) && is_unit(after)) || (is_unit(word) && is_number(before));
}

}  // namespace

std::string_view look_of_part(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kLooks[] = {
      {"kernel", "\x1b[1;38;5;31m"},
      {"user", "\x1b[1;38;5;130m"},
      {"preempted", "\x1b[1;38;5;166m"},
      {"blocked", "\x1b[1;38;5;132m"},
      {"halted", "\x1b[1;38;5;244m"}};
  for (const auto& [part, look] : kLooks)
    if (name == part) return look;
  return kBold;
}

std::string looking(std::string_view look, std::string_view text, const TextStyle& style) {
  if (!style.colours || look.empty() || text.empty()) return std::string(text);
  return std::string(look).append(text).append(kNormal);
}

std::string_view TextTable::Row::look_of(std::size_t column) const {
  const auto found = std::ranges::find(looks, column, &decltype(looks)::value_type::first);
  return dim || found == looks.end() ? std::string_view() : found->second;
}

namespace {

// Returns the offset in bytes at which the first `characters` characters of the text end.
std::size_t end_of(std::string_view text, std::size_t characters) {
  std::size_t end = 0;
  for (std::size_t width = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && width++ == characters) break;
  }
  return end;
}

std::string without_middle(const std::string& text, std::size_t columns) {
  const std::size_t width = text_width(text), tail = (columns - 1) / 2;
  if (width <= columns) return text;
  return text.substr(0, end_of(text, columns - 1 - tail)) + "…" +
         text.substr(end_of(text, width - tail));
}

}  // namespace

std::string cut_in_middle(const std::string& text, std::size_t columns) {
  // The thread's id is cut first: a vCPU's name says more.
  const std::size_t tid = text.rfind(" (tid ");
  const bool fits = tid == text.npos || text_width(text) <= columns;
  return without_middle(fits ? text : text.substr(0, tid), columns);
}

std::string cut_at_blank(std::string& text, std::size_t columns) {
  const std::size_t end = end_of(text, columns);
  if (end == text.size()) return {};
  const std::size_t word = std::min(text.find_first_not_of(" │├└"), end);
  const std::size_t blank = text.rfind(' ', end);
  const bool between = blank != text.npos && blank > word;
  std::string rest = text.substr(between ? blank + 1 : end);
  text.resize(between ? blank : end);
  return rest;
}

namespace {

constexpr std::size_t kColumnGap = 2;

bool is_text(const Column& column) {
  return column.unit == Unit::kText || column.unit == Unit::kSubject;
}

// Returns the columns for which there is room, in their order. Of joined columns, considers only
// their sum or, if `sum` is false, all but their sum.
std::vector<std::size_t> columns_with_room(const std::vector<Column>& all,
                                           const std::vector<std::size_t>& widths, std::size_t room,
                                           bool sum) {
  std::vector<std::size_t> order(widths.size()), columns;
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto drop_order = [&all](std::size_t column) { return all[column].drop_order; };
  std::ranges::stable_sort(order, {}, drop_order);
  std::size_t width = 0;
  for (const std::size_t column : order) {
    const Joined joined = all[column].joined;
    if (joined != Joined::kNever && (joined == Joined::kSum) != sum) continue;
    const std::size_t more = widths[column] + (columns.empty() ? 0 : kColumnGap);
    if (drop_order(column) != 0 && width + more > room) continue;
    width += more;
    columns.push_back(column);
  }
  std::ranges::sort(columns);
  return columns;
}

// Returns the line above the titles of all these columns but the first; empty if no head is shown.
std::string line_above(const std::vector<Column>& all, const std::vector<std::size_t>& columns,
                       const std::vector<std::size_t>& widths) {
  std::string line;
  std::size_t end = widths[0];
  for (std::size_t i = 1; i < columns.size();) {
    const Column& first = all[columns[i]];
    const std::string_view text = first.above;
    const std::size_t begin = end + kColumnGap, width = text_width(text);
    for (; i < columns.size() && all[columns[i]].above == text; ++i)
      end += kColumnGap + widths[columns[i]];
    // A head begins where its columns begin. If the head is too long, it ends where the columns
    // end, or is left out to make room for the next head.
    if (begin + width + 3 * kColumnGap > end && first.unit != Unit::kShare) continue;
    const std::size_t used = text_width(line) + (line.empty() ? 0 : 1);
    const std::size_t at =
        begin + width <= end ? begin : std::max(end - std::min(end, width), used);
    if (!text.empty()) pad(line, at - std::min(at, text_width(line)));
    line += text;
  }
  return line;
}

}  // namespace

std::vector<std::size_t> TextTable::print(std::ostream& out, const TextStyle& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = text_width(columns_[column].title);
    for (const Row& row : rows_) width = std::max(width, text_width(row.cells[column]));
    widths.push_back(width);
  }
  const bool may_cut = std::ranges::any_of(columns_, std::identity(), &Column::drop_order);
  const std::size_t whole = widths[0];
  if (may_cut) widths[0] = std::min(whole, std::max(kFirst, text_width(columns_[0].title)));
  std::vector<std::size_t> columns = columns_with_room(columns_, widths, style.width, false);
  const auto is_shown = [&columns](std::size_t column) {
    return std::ranges::binary_search(columns, column);
  };
  const auto is_sum = [this](std::size_t column) {
    return columns_[column].joined == Joined::kSum;
  };
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    if (columns_[column].joined != Joined::kPart || is_shown(column)) continue;
    auto joined = columns_with_room(columns_, widths, style.width, true);
    if (std::ranges::any_of(joined, is_sum)) columns = std::move(joined);
    break;
  }
  std::size_t numbers = 0;
  for (std::size_t i = 1; i < columns.size(); ++i) numbers += kColumnGap + widths[columns[i]];
  std::size_t room = style.width > numbers ? style.width - numbers : 0;
  // A text in the last column gives room to the first, which says what the row is.
  std::size_t& last = widths[columns.back()];
  const std::size_t lack = std::min(whole, kFirst) - std::min({whole, kFirst, room});
  if (columns.size() > 1 && is_text(columns_[columns.back()]) && last >= kFirst + lack) {
    last -= lack;
    room += lack;
  }
  widths[0] = std::min(whole, std::max(room, text_width(columns_[0].title)));

  const auto line_of = [&](const auto& cell, const auto& look, bool first) {
    std::string line = first ? looking(look(0), cell(0), style) : std::string();
    pad(line, widths[0] - (first ? std::min(widths[0], text_width(cell(0))) : 0));
    for (std::size_t i = 1; i < columns.size(); ++i) {
      const std::size_t column = columns[i];
      const std::string text = without_middle(cell(column), widths[column]);
      pad(line, kColumnGap);
      const std::size_t rest = widths[column] - text_width(text);
      if (!is_text(columns_[column])) pad(line, rest);
      line += looking(look(column), text, style);
      if (is_text(columns_[column]) && i + 1 < columns.size()) pad(line, rest);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  const auto print_line = [&](const std::string& line, std::string_view look) {
    out << looking(look, line, style) << '\n';
  };
  const auto title = [this](std::size_t column) -> const std::string& {
    return columns_[column].title;
  };
  const std::string above = line_above(columns_, columns, widths);
  if (!above.empty()) print_line(above, kBold);
  print_line(line_of(
                 title, [](std::size_t) { return std::string_view(); }, true),
             kBold);
  for (const Row& row : rows_) {
    const std::string_view look = row.dim ? kDim : std::string_view();
    const std::string name = may_cut ? cut_in_middle(row.cells[0], widths[0]) : row.cells[0];
    const bool fits = text_width(name) <= widths[0];
    std::string rest = fits ? std::string() : name;
    for (std::string line; !rest.empty();) {
      line += std::exchange(rest, {});
      rest = cut_at_blank(line, style.width);
      print_line(std::exchange(line, "  "), look);
    }
    const auto cell = [&](std::size_t column) -> const std::string& {
      return column == 0 ? name : row.cells[column];
    };
    const auto look_of = [&row](std::size_t column) { return row.look_of(column); };
    print_line(line_of(cell, look_of, fits), look);
  }
  std::vector<std::size_t> left_out;
  for (std::size_t column = 0; column < columns_.size(); ++column)
    if (!is_shown(column)) left_out.push_back(column);
  return left_out;
}

void print_wrapped(std::string_view label, const std::string& text, std::ostream& out,
                   const TextStyle& style, std::string_view look, bool figures) {
  const auto words = text.empty() ? std::vector<std::string_view>() : split(text, ' ');
  // Further lines begin below the first word, unless a long label leaves them little room.
  constexpr std::size_t kOfWidth = 3, kBehindLongLabel = 6;
  const std::size_t indent =
      text_width(label) * kOfWidth <= style.width ? text_width(label) : kBehindLongLabel;
  std::string line = looking(look, label, style);
  std::size_t width = text_width(label);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0 && width + 1 + text_width(words[i]) > style.width) {
      out << line << '\n';
      line.assign(indent, ' ');
      width = indent;
    }
    if (width != 0) line += ' ', ++width;
    const auto word = [&words](std::size_t at) {
      return at < words.size() ? words[at] : std::string_view();
    };
    const bool figure = figures && is_figure(word(i - 1), words[i], word(i + 1));
    const std::string_view bare = without_marks(words[i]);
    const std::size_t before = bare.empty() ? 0 : words[i].find(bare);
    line += words[i].substr(0, before);
    line += looking(figure ? kBold : "", bare, style);
    line += words[i].substr(before + bare.size());
    width += text_width(words[i]);
  }
  out << line << '\n';
}

}  // namespace trapline
