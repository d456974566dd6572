#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "merge/render/print.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// Returns the time of a duration or of a share; nullopt if it is not known.
std::optional<std::uint64_t> time_of(const CellValue& value) {
  if (const auto* share = std::get_if<Share>(&value)) return share->ns;
  if (const auto* ns = std::get_if<std::uint64_t>(&value)) return *ns;
  return std::nullopt;
}

std::string changed_text(const Changed& changed, const Column& column) {
  if (std::isnan(changed.by) || (changed.vague && !changed.proven)) return "-";
  return (changed.proven && column.highlight == Highlight::kProven ? "*" : "") +
         (column.unit == Unit::kChange ? percent_change_text(changed.by)
                                       : fmt::format("{:+.3g}", changed.by * 1e3));
}

std::string cell(const CellValue& value, const Column& column, bool cycles) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* changed = std::get_if<Changed>(&value)) return changed_text(*changed, column);
  const auto* share = std::get_if<Share>(&value);
  const std::string most = share != nullptr && share->at_most && share->ns ? "<= " : "";
  if (column.unit == Unit::kShare)
    return share == nullptr ? "-" : most + percent_text(share->ns, share->whole);
  if (column.unit == Unit::kSubject) {
    if (share == nullptr || share->ns.value_or(0) < share->whole / 10) return "";
    return fmt::format("{} ({}{})", share->of, share->at_least ? ">= " : "",
                       duration_text(share->ns, cycles));
  }
  if (column.unit == Unit::kDuration || column.unit == Unit::kNanoseconds) {
    cycles = cycles && column.unit == Unit::kDuration;
    // A signed time is what another setting saves: less than 0 if that setting takes longer.
    if (const auto* saved = std::get_if<std::int64_t>(&value)) {
      const auto ns = static_cast<std::uint64_t>(*saved);
      return *saved < 0 ? "-" + duration_text(-ns, cycles) : duration_text(ns, cycles);
    }
    return most + duration_text(time_of(value), cycles);
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return grouped(*number);
  return "-";
}

// Returns whether a column is not worth showing: one of shares that are all 0, or of subjects that
// are all empty. A share that is not known is shown, as "-".
bool says_nothing(const Table& table, const Table::Described& column) {
  if (column.unit != Unit::kShare && column.unit != Unit::kSubject) return false;
  for (std::size_t row = 0; row < table.rows; ++row) {
    const CellValue value = column.value(row);
    if (column.unit == Unit::kSubject) {
      if (!cell(value, column, false).empty()) return false;
      continue;
    }
    const auto* share = std::get_if<Share>(&value);
    if (share == nullptr || !share->ns || *share->ns != 0 || share->whole == 0) return false;
  }
  return true;
}

}  // namespace

std::vector<const Table::Described*> shown_columns(const Table& table, unsigned block) {
  std::vector<const Table::Described*> columns;
  for (const Table::Described& column : table.columns) {
    if (column.title.empty() || column.block != block || says_nothing(table, column)) continue;
    columns.push_back(&column);
  }
  return columns;
}

namespace {

// Prints a block of the table after an empty line, without rows that are absent from the block's
// first column. Below it, prints how many rows were left out and which columns had no room. Returns
// the keys of those columns.
std::vector<std::string> print_block(const Table& table, unsigned block, bool cycles,
                                     std::ostream& out, const TextStyle& style) {
  const std::vector<const Table::Described*> columns = shown_columns(table, block);
  std::vector<Column> shown = {{.title = table.titles[block]}};
  for (const Table::Described* described : columns) {
    Column& column = shown.emplace_back(*described);
    if (column.unit == Unit::kShare && column.above.empty())
      column.above = head_above(column, table.titles[block]);
  }
  TextTable text(std::move(shown));
  // For each column, the largest time so far in rows that are not dim, and its row.
  std::vector<std::pair<std::uint64_t, std::size_t>> largest(columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    const bool dim = table.dim && table.dim(row);
    std::vector<std::string> cells = {table.name(row)};
    std::vector<CellValue> values;
    for (const Table::Described* column : columns) {
      const CellValue& value = values.emplace_back(column->value(row));
      if (std::holds_alternative<Absent>(value)) break;
      cells.push_back(cell(value, *column, cycles));
    }
    if (cells.size() <= columns.size()) continue;
    const std::size_t at = text.add(std::move(cells), dim);
    std::size_t part = 0;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Highlight how = columns[i]->highlight;
      const std::uint64_t ns = time_of(values[i]).value_or(0);
      const auto* changed = std::get_if<Changed>(&values[i]);
      if (how == Highlight::kProven && changed != nullptr && changed->proven)
        text.mark(at, i + 1, kBold);
      if (how == Highlight::kLargest && !dim && ns > largest[i].first) largest[i] = {ns, at};
      if (how == Highlight::kLargestPart && ns > most) most = ns, part = i + 1;
    }
    if (most != 0) text.mark(at, part, look_of_part(columns[part - 1]->title));
  }
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (largest[i].first != 0) text.mark(largest[i].second, i + 1, kAlarm);
  if (text.empty()) return {};
  out << '\n';
  std::vector<std::string> no_room;
  std::string not_shown;
  std::string parts;
  bool sum = true;
  for (const std::size_t column : text.print(out, style)) {
    if (column == 0) continue;
    const Joined joined = columns[column - 1]->joined;
    if (joined == Joined::kSum) {
      sum = false;
      continue;
    }
    const std::string& key = no_room.emplace_back(columns[column - 1]->key);
    if (!key.empty() && joined == Joined::kNever &&
        std::ranges::find(table.after, key, &Paragraph::dropped) != table.after.end())
      continue;
    std::string& list = joined == Joined::kNever ? not_shown : parts;
    list += (list.empty() ? "" : ", ") + columns[column - 1]->title;
  }
  if (block == 0 && table.left_out != 0)
    out << "and " << grouped(table.left_out) << " more (--top)\n";
  if (!parts.empty()) {
    not_shown += fmt::format("{}{} ({})", not_shown.empty() ? "" : "; ", parts,
                             sum ? "other is their sum" : "what each row lacks to 100%");
    if (sum) no_room.emplace_back(kSumOfParts);
  }
  if (!not_shown.empty() && style.tells_dropped) {
    not_shown += "; a wider terminal or COLUMNS=200 shows them";
    print_wrapped("not shown:", not_shown, out, style);
  }
  return no_room;
}

constexpr std::size_t kTextColumns = 52, kTimeColumns = 9, kShareColumns = 8;

std::string pieces_text(const TimeTree& node) {
  return node.count > 1 ? fmt::format("  in {} pieces", grouped(node.count)) : std::string();
}

std::size_t pieces_columns(const TimeTree& node) {
  std::size_t columns = text_width(pieces_text(node));
  for (const TimeTree& child : node.children) columns = std::max(columns, pieces_columns(child));
  return columns;
}

struct TreeStyle {
  TextStyle terminal;
  std::uint64_t whole;
  std::size_t columns;  // columns for the text
  bool cycles;
};

// `lead` begins the node's first line; `below` begins its further lines, and its children's lines.
void print_node(const TimeTree& node, const std::string& lead, const std::string& below,
                std::string_view look, const TreeStyle& style, std::ostream& out) {
  std::string text = lead + node.text;
  std::string rest;
  if (style.terminal.width != TextStyle().width && text_width(text) > style.columns)
    rest = cut_at_blank(text, style.columns);
  const std::size_t width = text_width(text);
  const std::string time = duration_text(node.ns, style.cycles);
  const std::size_t time_width = text_width(time);
  out << text << std::string(width < style.columns ? style.columns - width : 1, ' ')
      << std::string(time_width < kTimeColumns ? kTimeColumns - time_width : 1, ' ')
      << looking(look, time, style.terminal)
      << fmt::format("{:>{}}", percent_text(node.ns, style.whole), kShareColumns)
      << pieces_text(node) << '\n';
  while (!rest.empty()) {
    std::string line = below + (node.children.empty() ? "" : "│ ") + std::exchange(rest, {});
    rest = cut_at_blank(line, style.columns);
    out << line << '\n';
  }
  const auto largest = std::ranges::max_element(node.children, {}, &TimeTree::ns);
  for (auto child = node.children.begin(); child != node.children.end(); ++child) {
    const bool last = child + 1 == node.children.end();
    print_node(*child, below + (last ? "└ " : "├ "), below + (last ? "  " : "│ "),
               lead.empty() && child == largest ? look_of_part(child->text) : "", style, out);
  }
}

// Prints a time and its parts, each on a line, with their share of the whole.
void print_tree(const TimeTree& tree, bool cycles, std::ostream& out, const TextStyle& style) {
  constexpr std::size_t kGaps = 2;  // before a time that fills its column, and after a long text
  const std::size_t figures = kGaps + kTimeColumns + kShareColumns + pieces_columns(tree);
  constexpr std::size_t kFewest = 16;
  const std::size_t room = style.width - std::min(style.width - kFewest, figures);
  print_node(tree, "", "", "", {style, tree.ns, std::min(kTextColumns, room), cycles}, out);
}

void print_paragraph(const Paragraph& paragraph, std::ostream& out, const TextStyle& style) {
  if (paragraph.shown == Shown::kVerbose && !style.verbose) return;
  if (paragraph.shown == Shown::kLegend && !style.verbose && !style.legend) return;
  if (paragraph.verbatim) {
    out << paragraph.text << '\n';
    return;
  }
  const std::string_view look = paragraph.look == LabelLook::kWarning  ? kAlarm
                                : paragraph.look == LabelLook::kStrong ? kBold
                                                                       : std::string_view();
  print_wrapped(paragraph.label, paragraph.text, out, style, look, paragraph.figures);
}

void print_all(const std::vector<Paragraph>& paragraphs, std::ostream& out,
               const TextStyle& style) {
  for (const Paragraph& paragraph : paragraphs) print_paragraph(paragraph, out, style);
}

void print_table(const Table& table, bool cycles, std::ostream& out, const TextStyle& style) {
  if (table.in_text) return print_table(*table.in_text, cycles, out, style);
  print_all(table.before, out, style);
  std::vector<std::string> dropped;
  for (unsigned block = 0; block < table.titles.size(); ++block) {
    const auto keys = print_block(table, block, cycles, out, style);
    dropped.insert(dropped.end(), keys.begin(), keys.end());
  }
  for (const TimeTree& tree : table.trees) print_tree(tree, cycles, out, style);
  for (std::size_t row = 0; row < table.rows; ++row) {
    if (table.sentences) print_all(table.sentences(row), out, style);
    if (!table.text_children) continue;
    for (const Table& child : table.children(row)) print_table(child, cycles, out, style);
  }
  for (const Paragraph& paragraph : table.after) {
    if (paragraph.dropped.empty() ||
        (!paragraph.text.empty() && std::ranges::find(dropped, paragraph.dropped) != dropped.end()))
      print_paragraph(paragraph, out, style);
  }
}

// Prints commands with what they answer. If both are too long for one line of the terminal, the
// answer is on a second line as a comment, so that a shell still reads the same command.
void print_next(const std::vector<NextStep>& steps, std::ostream& out, const TextStyle& style) {
  constexpr std::string_view kLabel = "next: ";
  std::string lead = '\n' + std::string(kLabel);
  for (const NextStep& step : steps) {
    const std::string command = "trapline " + step.command, answers = "# " + step.answers;
    const std::string indent(kLabel.size(), ' ');
    const std::size_t room = style.width - kLabel.size();
    out << std::exchange(lead, indent) << command;
    const bool fits = text_width(command) + 2 + text_width(answers) <= room;
    out << (fits ? "  " : '\n' + indent) << answers << '\n';
  }
}

}  // namespace

void print_text(const Report& report, std::ostream& out, const TextStyle& style) {
  print_all(report.before, out, style);
  for (const Table& table : report.tables) print_table(table, report.cycles, out, style);
  print_all(report.after, out, style);
  print_next(report.next, out, style);
}

}  // namespace trapline
