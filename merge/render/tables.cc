#include "merge/render/tables.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// The time that a duration or a share is; nothing of what is not known.
std::optional<std::uint64_t> time_of(const CellValue& value) {
  if (const auto* share = std::get_if<Share>(&value)) return share->ns;
  if (const auto* ns = std::get_if<std::uint64_t>(&value)) return *ns;
  return std::nullopt;
}

std::string changed_text(const Changed& changed, const Column& column) {
  if (std::isnan(changed.by)) return "-";
  return (changed.proven && column.stands_out == StandsOut::kProven ? "*" : "") +
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
                       percent_text(share->ns, share->whole));
  }
  if (column.unit == Unit::kDuration || column.unit == Unit::kNanoseconds) {
    cycles = cycles && column.unit == Unit::kDuration;
    // A time that was longer in another case, and is saved, may be less than nothing.
    if (const auto* saved = std::get_if<std::int64_t>(&value)) {
      const auto ns = static_cast<std::uint64_t>(*saved);
      return *saved < 0 ? "-" + duration_text(-ns, cycles) : duration_text(ns, cycles);
    }
    return most + duration_text(time_of(value), cycles);
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return grouped(*number);
  return "-";
}

Json json_of(const CellValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, Share>) {
          return held.ns ? Json(*held.ns) : Json();
        } else if constexpr (std::is_same_v<Held, Changed>) {
          return held.by;
        } else if constexpr (std::is_same_v<Held, std::monostate> || std::is_same_v<Held, Absent>) {
          return {};
        } else {
          return held;
        }
      },
      value);
}

// Shares of nothing, and subjects where there are none. What is not known is shown, as "-".
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

std::vector<const Table::Described*> shown_columns(const Table& table, unsigned block) {
  std::vector<const Table::Described*> columns;
  for (const Table::Described& column : table.columns) {
    if (column.title.empty() || column.block != block || says_nothing(table, column)) continue;
    columns.push_back(&column);
  }
  return columns;
}

// Where the largest part of a row, and the largest of a column, stand in the text.
class Standing {
 public:
  Standing(const Table& table, const std::vector<const Table::Described*>& columns)
      : columns_(columns), largest_(columns.size()) {
    for (std::size_t row = 0; row < table.rows; ++row) {
      if (table.dim && table.dim(row)) continue;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns[i]->stands_out != StandsOut::kLargest) continue;
        const std::uint64_t ns = time_of(columns[i]->value(row)).value_or(0);
        if (ns > largest_[i].ns) largest_[i] = {ns, row};
      }
    }
  }

  void mark(TextTable& text, std::size_t row) const {
    std::optional<std::size_t> largest;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const StandsOut how = columns_[i]->stands_out;
      if (how == StandsOut::kLargest && largest_[i].ns != 0 && largest_[i].row == row)
        text.mark(i + 1, kAlarm);
      if (how == StandsOut::kProven) mark_proven(text, row, i);
      if (how != StandsOut::kLargestPart) continue;
      const std::uint64_t ns = time_of(columns_[i]->value(row)).value_or(0);
      if (ns > most) most = ns, largest = i;
    }
    if (largest) text.mark(*largest + 1, look_of_part(columns_[*largest]->title));
  }

 private:
  void mark_proven(TextTable& text, std::size_t row, std::size_t column) const {
    const CellValue value = columns_[column]->value(row);
    const auto* changed = std::get_if<Changed>(&value);
    if (changed != nullptr && changed->proven) text.mark(column + 1, kBold);
  }

  struct Largest {
    std::uint64_t ns = 0;
    std::size_t row = 0;
  };
  const std::vector<const Table::Described*>& columns_;
  std::vector<Largest> largest_;
};

}  // namespace

std::vector<std::string> print_table(const Table& table, std::string_view title, bool cycles,
                                     std::ostream& out, const TextStyle& style, unsigned block) {
  std::vector<TextTable::Column> titles = {title};
  const std::vector<const Table::Described*> columns = shown_columns(table, block);
  for (const Table::Described* column : columns) {
    TextTable::Column& shown = titles.emplace_back(column->title);
    shown.text = column->unit == Unit::kText || column->unit == Unit::kSubject;
    shown.goes = column->goes;
  }
  TextTable text(std::move(titles));
  const Standing standing(table, columns);
  for (std::size_t row = 0; row < table.rows; ++row) {
    std::vector<std::string> cells = {table.name(row)};
    for (const Table::Described* column : columns) {
      const CellValue value = column->value(row);
      if (std::holds_alternative<Absent>(value)) break;
      cells.push_back(cell(value, *column, cycles));
    }
    if (cells.size() <= columns.size()) continue;
    text.add(std::move(cells), table.dim && table.dim(row));
    standing.mark(text, row);
  }
  if (text.empty()) return {};
  out << '\n';
  std::vector<std::string> no_room;
  std::string not_shown;
  for (const std::size_t column : text.print(out, style)) {
    if (column == 0) continue;
    no_room.push_back(columns[column - 1]->key);
    not_shown += (not_shown.empty() ? "" : ", ") + columns[column - 1]->title;
  }
  if (block == 0) print_left_out(table.left_out, out);
  if (!not_shown.empty()) {
    not_shown += "; a wider terminal or COLUMNS=200 shows them";
    print_wrapped("not shown:", not_shown, out, style);
  }
  return no_room;
}

Json row_json(const Table& table, std::size_t row) {
  Json json = Json::object();
  for (const Table::Described& column : table.columns) {
    if (column.key.empty() || !column.json) continue;
    const CellValue value = column.value(row);
    if (std::holds_alternative<Absent>(value)) continue;
    Json* at = &json;
    std::string_view key = column.key;
    for (auto dot = key.find('.'); dot != key.npos; dot = key.find('.')) {
      at = &(*at)[std::string(key.substr(0, dot))];
      key.remove_prefix(dot + 1);
    }
    (*at)[std::string(key)] = json_of(value);
  }
  return json;
}

Json rows_json(const Table& table) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < table.rows; ++row) rows.push_back(row_json(table, row));
  return rows;
}

Json packed_json(const Table& table) {
  Json columns = Json::array(), rows = Json::array();
  const auto shown = [](const Table::Described& column) {
    return !column.key.empty() && column.json;
  };
  for (const Table::Described& column : table.columns)
    if (shown(column)) columns.push_back(column.key);
  for (std::size_t row = 0; row < table.rows; ++row) {
    Json& cells = rows.emplace_back(Json::array());
    for (const Table::Described& column : table.columns)
      if (shown(column)) cells.push_back(json_of(column.value(row)));
  }
  return {{"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

namespace {

// What the page calls it: how its cells are written.
std::string_view page_unit(Unit unit) {
  switch (unit) {
    case Unit::kCount:
      return "count";
    case Unit::kDuration:
    case Unit::kNanoseconds:
      return "duration";
    case Unit::kShare:
      return "share";
    case Unit::kText:
    case Unit::kWord:
    case Unit::kChange:
    case Unit::kThousandths:
    case Unit::kSubject:
      break;
  }
  return "text";
}

Json ratio_of(const CellValue& value) {
  const auto* share = std::get_if<Share>(&value);
  if (share == nullptr || !share->ns || share->whole == 0) return {};
  return static_cast<double>(*share->ns) / static_cast<double>(share->whole);
}

}  // namespace

Json described_json(const Table& table, std::string_view title, std::size_t most_rows) {
  const std::vector<const Table::Described*> shown = shown_columns(table, 0);
  Json columns = Json::array(), rows = Json::array();
  columns.push_back({{"title", title}, {"unit", "text"}});
  for (const Table::Described* column : shown)
    columns.push_back({{"title", column->title}, {"unit", page_unit(column->unit)}});
  const std::size_t told = std::min(table.rows, most_rows);
  for (std::size_t row = 0; row < told; ++row) {
    Json cells = Json::array();
    cells.push_back(table.name(row));
    for (const Table::Described* column : shown) {
      const CellValue value = column->value(row);
      cells.push_back(column->unit == Unit::kShare ? ratio_of(value) : json_of(value));
    }
    rows.push_back(std::move(cells));
  }
  return {{"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"rows_left_out", table.left_out + (table.rows - told)}};
}

void print_csv_header(const Table& table, std::ostream& out) {
  const char* separator = "";
  for (const Table::Described& column : table.columns) {
    if (column.key.empty() || !column.csv) continue;
    out << std::exchange(separator, ",") << column.key;
  }
  out << '\n';
}

void print_csv_rows(const Table& table, std::ostream& out) {
  for (std::size_t row = 0; row < table.rows; ++row) {
    const char* separator = "";
    for (const Table::Described& column : table.columns) {
      if (column.key.empty() || !column.csv) continue;
      out << std::exchange(separator, ",");
      const Json json = json_of(column.value(row));
      if (json.is_string() && column.unit == Unit::kWord) {
        out << json.get_ref<const std::string&>();
      } else if (json.is_string()) {
        out << csv_cell(json.get_ref<const std::string&>());
      } else if (json.is_number_float()) {
        const double number = json.get<double>();
        if (std::isfinite(number)) out << fmt::format("{}", number);
      } else if (!json.is_null()) {
        out << json.dump();
      }
    }
    out << '\n';
  }
}

}  // namespace trapline
