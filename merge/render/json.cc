#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/quoted_text.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "merge/render/print.h"

namespace trapline {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const CellValue& value) {
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

// Sets a member. The key "a.b" means the member b of the object a.
void put(Json& json, std::string_view key, const CellValue& value) {
  if (std::holds_alternative<Absent>(value)) return;
  Json* at = &json;
  for (auto dot = key.find('.'); dot != key.npos; dot = key.find('.')) {
    at = &(*at)[std::string(key.substr(0, dot))];
    key.remove_prefix(dot + 1);
  }
  (*at)[std::string(key)] = value_json(value);
}

Json facts_json(const Facts& facts) {
  Json json = Json::object();
  for (const Fact& fact : facts) put(json, fact.key, fact.value);
  return json;
}

Json row_json(const Table& table, std::size_t row);

bool is_in_json(const Column& column) { return !column.key.empty() && column.json; }

// Returns the table as an object that has `rows` as its rows.
Json table_json(const Table& table, Json rows) {
  Json json = facts_json(table.facts);
  if (!table.columns.empty() || table.children) {
    if (table.packed) {
      Json& keys = json["columns"] = Json::array();
      for (const Table::Described& column : table.columns)
        if (is_in_json(column)) keys.push_back(column.key);
    }
    json["rows"] = std::move(rows);
  }
  if (table.total) json["total"] = table.total->rows == 0 ? Json() : row_json(*table.total, 0);
  if (!table.columns.empty()) json["left_out"] = table.left_out;
  return json;
}

Json table_json(const Table& table) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < table.rows; ++row) rows.push_back(row_json(table, row));
  return table_json(table, std::move(rows));
}

Json row_json(const Table& table, std::size_t row) {
  Json json = table.packed ? Json::array() : Json::object();
  for (const Table::Described& column : table.columns) {
    if (!is_in_json(column)) continue;
    if (table.packed)
      json.push_back(value_json(column.value(row)));
    else
      put(json, column.key, column.value(row));
  }
  if (!table.children) return json;
  for (const Table& child : table.children(row)) json[child.key] = table_json(child);
  return json;
}

// Returns the JSON in one line. Replaces bytes that are not UTF-8, since an exception would end
// `trapline top`.
std::string line_of(const Json& json, bool ascii) {
  return json.dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

Json report_json(const Report& report) {
  Json json = {{"version", Report::kVersion}, {"head", facts_json(report.head)}};
  Json& tables = json["tables"] = Json::object();
  for (const Table& table : report.tables)
    if (table.json) tables[table.key] = table_json(table);
  json["notes"] = report.notes;
  return json;
}

}  // namespace

void print_json(const Report& report, std::ostream& out) {
  out << report_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string json_line(const Report& report, bool ascii) {
  return line_of(report_json(report), ascii);
}

std::string json_of(const Facts& facts) { return line_of(facts_json(facts), true); }

namespace {

// Returns the page's name of a unit, which decides how cells are written.
std::string_view page_unit(Unit unit) {
  if (unit == Unit::kCount) return "count";
  if (unit == Unit::kShare) return "share";
  return unit == Unit::kDuration || unit == Unit::kNanoseconds ? "duration" : "text";
}

Json page_cell(const Table::Described& column, std::size_t row) {
  const CellValue value = column.value(row);
  if (column.unit != Unit::kShare) return value_json(value);
  const auto* share = std::get_if<Share>(&value);
  if (share == nullptr || !share->ns || share->whole == 0) return {};
  return static_cast<double>(*share->ns) / static_cast<double>(share->whole);
}

// Returns {facts, "columns": [{"title", "unit"}], "rows", "left_out"}, with the columns that the
// text shows.
Json described_json(const Table& table) {
  const std::vector<const Table::Described*> shown = shown_columns(table, 0);
  Json json = facts_json(table.facts);
  Json& columns = json["columns"] = Json::array();
  columns.push_back({{"title", table.page_title}, {"unit", "text"}});
  for (const Table::Described* column : shown)
    columns.push_back({{"title", column->unit != Unit::kShare
                                     ? column->title
                                     : trimmed(column->title + ' ' + head_above(*column, {}))},
                       {"unit", page_unit(column->unit)}});
  Json& rows = json["rows"] = Json::array();
  for (std::size_t row = 0; row < table.rows; ++row) {
    Json& cells = rows.emplace_back(Json::array({table.name(row)}));
    for (const Table::Described* column : shown) cells.push_back(page_cell(*column, row));
  }
  json["left_out"] = table.left_out;
  return json;
}

}  // namespace

std::string json_of(const Table& table) {
  if (!table.page_title.empty()) return line_of(described_json(table), true);
  return line_of(table_json(table), true);
}

namespace {

// Prints a line with the columns' keys. `parent` is the first column's name in a table of a row's
// children; otherwise empty.
void print_csv_header(const Table& table, std::string_view parent, std::ostream& out) {
  out << parent;
  const char* separator = parent.empty() ? "" : ",";
  for (const Table::Described& column : table.columns) {
    if (column.key.empty() || !column.csv) continue;
    out << std::exchange(separator, ",") << column.key;
  }
  out << '\n';
}

void print_csv_cell(const CellValue& value, Unit unit, std::ostream& out) {
  const Json json = value_json(value);
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    out << (unit == Unit::kWord ? text : csv_cell(text));
  } else if (json.is_number_float()) {
    const double number = json.get<double>();
    if (std::isfinite(number)) out << fmt::format("{}", number);
  } else if (!json.is_null()) {
    out << json.dump();
  }
}

void print_csv_rows(const Table& table, std::string_view parent, std::ostream& out) {
  for (std::size_t row = 0; row < table.rows; ++row) {
    if (!parent.empty()) out << csv_cell(parent);
    const char* separator = parent.empty() ? "" : ",";
    for (const Table::Described& column : table.columns) {
      if (column.key.empty() || !column.csv) continue;
      out << std::exchange(separator, ",");
      print_csv_cell(column.value(row), column.unit, out);
    }
    out << '\n';
  }
}

// Prints the children of all rows, the children of one kind together.
void print_csv_children(const Table& table, std::ostream& out) {
  if (!table.csv_children || table.rows == 0) return;
  const std::size_t kinds = table.children(0).size();
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    for (std::size_t row = 0; row < table.rows; ++row) {
      const Table child = std::move(table.children(row)[kind]);
      if (row == 0) {
        out << "\n# " << table.key << '.' << child.key << '\n';
        print_csv_header(child, table.key, out);
      }
      print_csv_rows(child, table.name(row), out);
    }
  }
}

}  // namespace

void print_csv(const Report& report, std::ostream& out) {
  bool is_first = true;
  for (const Table& table : report.tables) {
    if (!table.csv) continue;
    if (!std::exchange(is_first, false)) out << "\n# " << table.key << '\n';
    print_csv_header(table, {}, out);
    print_csv_rows(table, {}, out);
    print_csv_children(table, out);
  }
}

namespace {

constexpr std::size_t kMostRows = 1024;

// How many rows of a table are kept; at least `least` of them must stay.
struct List {
  std::string key;
  std::size_t kept, least;
};

// Returns the most important rows first, if the table has weights; at most kMostRows.
Json important_rows(const Table& table) {
  std::vector<std::size_t> order(table.rows);
  for (std::size_t row = 0; row < order.size(); ++row) order[row] = row;
  if (table.weight)
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&table](std::size_t row) { return table.weight(row); });
  if (order.size() > kMostRows) order.resize(kMostRows);
  Json rows = Json::array();
  for (const std::size_t row : order) rows.push_back(row_json(table, row));
  return rows;
}

Json important(const Report& report, std::vector<List>& lists) {
  Json json = {{"version", Report::kVersion}, {"head", facts_json(report.head)}};
  Json& tables = json["tables"] = Json::object();
  bool has_first = false;
  for (const Table& table : report.tables) {
    if (!table.json) continue;
    const Json all = table_json(table, important_rows(table));
    Json& members = tables[table.key] = Json::object();
    // Leaves out counters that are 0. A table without columns is a table of counters.
    for (const auto& [key, value] : all.items())
      if (!table.columns.empty() || value != 0) members[key] = value;
    if (!members.contains("rows")) continue;
    const std::size_t kept = members["rows"].size();
    const bool is_first = table.csv && !std::exchange(has_first, has_first || table.csv);
    lists.push_back({table.key, kept, is_first ? std::size_t{1} : 0});
    members["left_out"] = table.left_out + table.rows - kept;
  }
  json["notes"] = report.notes;
  Json& next = json["head"]["next"] = Json::array();
  for (const NextStep& step : report.next)
    next.push_back({{"command", "trapline " + step.command}, {"answers", step.answers}});
  return json;
}

// Halves the list that takes the most bytes; returns false if no list can be cut.
bool cut(Json& tables, std::vector<List>& lists) {
  List* largest = nullptr;
  std::size_t most = 0;
  for (List& list : lists) {
    if (list.kept <= list.least) continue;
    const std::size_t size = line_of(tables[list.key]["rows"], false).size();
    if (size > most) {
      most = size;
      largest = &list;
    }
  }
  if (largest == nullptr) return false;
  const std::size_t before = largest->kept;
  largest->kept = std::max(before / 2, largest->least);
  Json& table = tables[largest->key];
  table["left_out"] = table["left_out"].get<std::size_t>() + before - largest->kept;
  auto& rows = table["rows"].get_ref<Json::array_t&>();
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(largest->kept), rows.end());
  return true;
}

}  // namespace

Result<std::string> report_within(const Report& report, const std::string& command,
                                  std::size_t bytes) {
  std::vector<List> lists;
  Json json = important(report, lists);
  json["head"]["all"] = Json();
  while (true) {
    std::string text = line_of(json, false) + '\n';
    if (text.size() <= bytes) return text;
    json["head"]["all"] = command;
    if (!cut(json["tables"], lists)) {
      return fail(ErrorKind::kUsage,
                  "--budget: what no report can do without takes {} bytes here; give {} or more",
                  text.size(), size_text((text.size() + kKib - 1) / kKib * kKib));
    }
  }
}

}  // namespace trapline
