// A table of a report as a value: text, JSON, CSV, the page and `top --batch` print what it says
// and know none by name.
//
//   std::vector<Row> ──> TableOf<Row>, a line for each column ──> Table ──> Report ──> render/
//
// A table owns its rows, or borrows them. Cells are made when they are printed, row by row: a
// report of ten thousands of vCPUs would take hundreds of megabytes as cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
                 Share, Changed, std::vector<double>, std::vector<std::uint64_t>,
                 std::vector<std::int64_t>, std::vector<std::string>>;

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
enum class Highlight : std::uint8_t { kNever, kLargest, kLargestPart, kProven };

struct Column {
  std::string key{};    // JSON and CSV; "a.b": b of the object a. Empty: not there
  std::string title{};  // text. Empty: not there
  Unit unit = Unit::kCount;
  std::uint8_t block = 0;  // of the text: a table may stand in several, one below the other
  std::uint8_t drop_order =
      0;  // 0: it stays; where a terminal is narrow the highest is dropped first
  bool csv = true, json = true;
  Highlight highlight = Highlight::kNever;
};

// A figure beside the rows: "a.b" is b of the object a.
struct Fact {
  std::string key;
  CellValue value;
};
using Facts = std::vector<Fact>;

// How a label stands out on a terminal.
enum class LabelLook : std::uint8_t { kPlain, kStrong, kWarning };

// A sentence of the text. Without a text it is an empty line.
struct Paragraph {
  std::string text{};
  std::string label{};  // before the text, whose further lines begin under its first word
  LabelLook look = LabelLook::kPlain;
  bool figures = false;   // durations and percentages stand out
  bool verbatim = false;  // it keeps its lines, however wide the terminal is
  std::string dropped{};  // printed only where the table's column with this key has no room
};

// JSON has a row's children as tables in the row, CSV as tables of their own whose first column is
// the parent's name.
struct Table {
  struct Described : Column {
    std::function<CellValue(std::size_t row)> value;
  };

  std::string key{};  // of JSON, and of the line "# KEY" of CSV
  Facts facts{};
  std::vector<Described> columns{};
  std::size_t rows = 0, left_out = 0;
  // Of one row, which JSON has beside the rows; no row: null.
  std::shared_ptr<const Table> total{};
  std::function<std::vector<Table>(std::size_t row)> children{};
  // Whether JSON has it, and CSV: the tables that were asked for, and the rows' children.
  bool json = true, csv = false, csv_children = false;
  bool packed = false;     // the page's JSON has the rows as lists, under the columns' keys
  std::string raw_rows{};  // JSON of the rows, in place of columns
  // What the page calls a row's name, where it has no view of its own for the table: it then gets
  // the columns that text has, with their titles and units.
  std::string page_title{};

  // The first column of the text, and the rows that it shows as less important.
  std::function<std::string(std::size_t row)> name{};
  std::function<bool(std::size_t row)> dim{};
  // Where --budget has no room for all rows, those with the most stay; else the first.
  std::function<std::uint64_t(std::size_t row)> weight{};
  // What text calls the first column, of each block; none: text has no such table.
  std::vector<std::string> titles{};
  std::vector<Paragraph> before{}, after{};
  // A row in sentences, in place of a line.
  std::function<std::vector<Paragraph>(std::size_t row)> sentences{};
  bool text_children = false;              // text has the children's tables
  bool tree = false;                       // text draws the rows and their children as a tree
  std::shared_ptr<const Table> in_text{};  // what text has in its place

  std::shared_ptr<const void> owned{};  // the rows, where they are the table's own
};

template <typename Row>
class TableOf : public Table {
 public:
  // `row_name`: a row's first column in text; a member or a function of the row.
  template <typename Name>
  TableOf(std::span<const Row> all, Name row_name) : all_(all) {
    rows = all.size();
    name = [all, row_name](std::size_t row) -> std::string {
      return std::string(std::invoke(row_name, all[row]));
    };
  }
  template <typename Name>
  TableOf(std::shared_ptr<const std::vector<Row>> all, Name row_name)
      : TableOf(std::span<const Row>(*all), row_name) {
    owned = std::move(all);
  }
  template <typename Name>
  TableOf(std::vector<Row>&& all, Name row_name)
      : TableOf(std::make_shared<const std::vector<Row>>(std::move(all)), row_name) {}
  // `value`: a member of the row, or a function of it.
  template <typename Get>
  void add(Column column, Get value) {
    columns.push_back({std::move(column), [all = all_, value](std::size_t row) {
                         return to_value(std::invoke(value, all[row]));
                       }});
  }
  [[nodiscard]] std::span<const Row> all() const { return all_; }

 private:
  std::span<const Row> all_;
};

// What the recording cannot tell of any row: the columns whose keys begin so.
inline void forget(Table& table, std::string_view prefix) {
  for (Table::Described& column : table.columns)
    if (column.key.starts_with(prefix)) column.value = [](std::size_t) { return CellValue(); };
}

struct NextStep {
  std::string command;  // what is typed after "trapline"
  std::string answers;
};

// What a command prints: `trapline report`, explain, stalls, advise, diff, top --batch, the page.
// docs/formats/report.md has its JSON.
struct Report {
  static constexpr int kVersion = 3;

  Facts head;
  bool cycles = false;  // times are cycles, not ns
  std::vector<Table> tables;
  std::vector<std::string> notes;  // sentences a reader has to know
  // Of the text alone: what stands above the tables and below them.
  std::vector<Paragraph> before, after;
  std::vector<NextStep> next;  // what to ask next
};

// A note as text has it, at the end of a report.
[[nodiscard]] inline Paragraph note_paragraph(const std::string& note,
                                              LabelLook look = LabelLook::kStrong) {
  return {.text = note, .label = "note:", .look = look};
}

}  // namespace trapline
