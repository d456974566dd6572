// A table of a report: its columns are described once, and text, JSON, CSV, `top --batch` and the
// page print the description.
//
//   std::vector<Row> ──> TableOf<Row>, a line for each column ──> Table ──> render/tables.h
//
// A table borrows its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace trapline {

// How text writes a number; JSON and CSV have it as it is.
enum class Unit : std::uint8_t {
  kText,
  kWord,         // a text of ours, which CSV need not quote
  kCount,        // thousands apart
  kDuration,     // each in the unit that suits it
  kNanoseconds,  // the same, whatever the clock of the recording
  kShare,        // a percentage
  kChange,       // of a Changed: "+12.3%", "new", "x12.3"
  kThousandths,  // the same times 1000
  kSubject,      // what a share is of, and the percentage; nothing where that is less than 10
};

// A time that is part of another one.
struct Share {
  std::optional<std::uint64_t> ns;
  std::uint64_t whole = 0;
  bool at_most = false, at_least = false;  // no more than this, or no less
  std::string of{};
};
// By how much something changed, as a share of what it was; infinite from nothing, NaN: not known.
struct Changed {
  double by = 0;
  bool proven = false;
};
struct Absent {};  // the row has no such column: not in JSON, and in text without it
// std::monostate, and a number that is not finite: not known, "-" in text, null in JSON, nothing in
// CSV.
using CellValue =
    std::variant<std::monostate, Absent, bool, std::int64_t, std::uint64_t, double, std::string,
                 Share, Changed, std::vector<double>, std::vector<std::uint64_t>>;

template <typename T>
[[nodiscard]] CellValue to_value(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>{value};
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return value;
  }
}
template <typename T>
[[nodiscard]] CellValue to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : CellValue();
}
// Nothing of an empty text.
[[nodiscard]] inline CellValue text_or_null(std::string_view text) {
  return text.empty() ? CellValue() : to_value(text);
}
// Nothing of a name that a report writes as "-".
[[nodiscard]] inline CellValue name_or_null(std::string_view name) {
  return name == "-" ? CellValue() : to_value(name);
}
// Nothing of a number that stands for none.
[[nodiscard]] inline CellValue number_or_null(std::int32_t number, std::int32_t none) {
  return number == none ? CellValue() : to_value(number);
}

// Which of a column's cells a terminal shows in colour: none, the largest of the rows that are not
// dim, those that are the largest part of their row, or the changes that are proven, with a star.
enum class StandsOut : std::uint8_t { kNever, kLargest, kLargestPart, kProven };

struct Column {
  std::string key{};    // JSON and CSV; "a.b": b of the object a. Empty: not there
  std::string title{};  // text. Empty: not there
  Unit unit = Unit::kCount;
  std::uint8_t block = 0;  // of the text: a table may stand in several, one below the other
  std::uint8_t goes = 0;   // 0: it stays; where a terminal is narrow the highest goes first
  bool csv = true, json = true;
  StandsOut stands_out = StandsOut::kNever;
};

class Table {
 public:
  struct Described : Column {
    std::function<CellValue(std::size_t row)> value;
  };
  std::vector<Described> columns;
  std::size_t rows = 0, left_out = 0;
  // The first column of the text, and the rows that it shows as less important.
  std::function<std::string(std::size_t row)> name;
  std::function<bool(std::size_t row)> dim;
};

template <typename Row>
class TableOf : public Table {
 public:
  // `name`: a row's first column in text; a member or a function of the row.
  template <typename Name>
  TableOf(std::span<const Row> all, Name named) : all_(all) {
    rows = all.size();
    name = [all, named](std::size_t row) -> std::string { return std::invoke(named, all[row]); };
  }
  // `value`: a member of the row, or a function of it.
  template <typename Get>
  void add(Column column, Get value) {
    columns.push_back({std::move(column), [all = all_, value](std::size_t row) {
                         return to_value(std::invoke(value, all[row]));
                       }});
  }

 private:
  std::span<const Row> all_;
};

// What the recording cannot tell of any row: the columns whose keys begin so.
inline void forget(Table& table, std::string_view prefix) {
  for (Table::Described& column : table.columns)
    if (column.key.starts_with(prefix)) column.value = [](std::size_t) { return CellValue(); };
}

}  // namespace trapline
