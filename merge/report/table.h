// A table of a report as a value. Text, JSON, CSV, the page and `top --batch` print any table from
// its description; they know no table by name.
//
//   std::vector<Row> ──> TableOf<Row>, a line for each column ──> Table ──> Report ──> render/
//
// A table owns its rows, or borrows them. Text and CSV make cells row by row as they print; JSON is
// built as one value before it is printed (for ten thousand VMs 5 MB of text, which take 9 MiB
// more).
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

// How text formats a number; JSON and CSV contain the number itself.
enum class Unit : std::uint8_t {
  kText,
  kWord,         // one of our own words, which CSV need not quote
  kCount,        // with thousands separated
  kDuration,     // in a unit that suits the value
  kNanoseconds,  // as kDuration, but in ns even if the recording's clock counts cycles
  kShare,        // a percentage
  kChange,       // for a Changed: "+12.3%", "new", "x12.3"
  kThousandths,  // for a Changed, its value times 1000: "+12.3"
  kSubject,      // the subject of a share and its time; empty if less than a tenth
};

// A time that is part of another time.
struct Share {
  std::optional<std::uint64_t> ns;
  std::uint64_t whole = 0;
  bool at_most = false, at_least = false;  // the share is an upper, or a lower, limit
  std::string of{};
};
// How much something changed, as a share of its previous value; infinite if that was 0, NaN: not
// known.
struct Changed {
  double by = 0;
  bool proven = false;
  bool vague = false;  // the interval of `by` spans more than a factor of ten: text shows "-"
};
struct Absent {};  // the row does not have this column: JSON omits it, and text omits its words
// std::monostate, and a number that is not finite, mean not known: "-" in text, null in JSON, empty
// in CSV.
using CellValue = std::variant<std::monostate, Absent, bool, std::int64_t, std::uint64_t, double,
                               std::string, Share, Changed, std::vector<double>,
                               std::vector<std::uint64_t>, std::vector<std::int64_t>,
                               std::vector<std::string>, std::vector<std::vector<std::uint64_t>>>;

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
// Returns not known for an empty text.
[[nodiscard]] inline CellValue text_or_null(std::string_view text) {
  return text.empty() ? CellValue() : to_value(text);
}
// Returns not known for "-", which reports print for an unknown name.
[[nodiscard]] inline CellValue name_or_null(std::string_view name) {
  return name == "-" ? CellValue() : to_value(name);
}
// Returns a cell "not known" if `number` is `none`, the number that stands for no value.
[[nodiscard]] inline CellValue number_or_null(std::int32_t number, std::int32_t none) {
  return number == none ? CellValue() : to_value(number);
}

// Which cells of a column a terminal shows in colour: none, the largest in rows that are not dim,
// those that are the largest part of their row, or proven changes, with a star.
enum class Highlight : std::uint8_t { kNever, kLargest, kLargestPart, kProven };

// How text joins shares of one whole that it has no room for: if a kPart has no room, the table's
// kSum stands for all kParts and kSmallParts. A kSmallPart without room is just left out.
enum class Joined : std::uint8_t { kNever, kPart, kSmallPart, kSum };
inline constexpr std::string_view kSumOfParts = "other";  // the kSum's title

struct Column {
  // Name in JSON and CSV; "a.b" is b in the object a. Empty: they omit the column.
  std::string key{};
  std::string title{};  // title in text. Empty: text omits the column
  Unit unit = Unit::kCount;
  std::uint8_t block = 0;  // in text: a table may be printed in several blocks, one below the other
  std::uint8_t drop_order = 0;  // 0: the column stays; a narrow terminal drops the highest first
  Joined joined = Joined::kNever;
  bool csv = true, json = true;
  Highlight highlight = Highlight::kNever;
  std::string whole{};  // for a share, the name of its whole: "busy time"
  std::string above{};  // words above the title; of a share "of WHOLE" if empty
};
// Returns the words above the column in a table of that title, "of busy time"; empty if a title
// already has them.
[[nodiscard]] inline std::string head_above(const Column& column, std::string_view title) {
  const bool is_said = column.title.find(column.whole) != column.title.npos ||
                       title.find(column.whole) != title.npos;
  return is_said ? std::string() : "of " + column.whole;
}

// A figure besides the rows: "a.b" is b in the object a.
struct Fact {
  std::string key;
  CellValue value;
};
using Facts = std::vector<Fact>;

// How a label is emphasised on a terminal.
enum class LabelLook : std::uint8_t { kPlain, kStrong, kWarning };

// When text has a sentence: always, with -v alone, or with -v and on a terminal.
enum class Shown : std::uint8_t { kAlways, kVerbose, kLegend };

// A sentence of the text. Without a text, the paragraph is an empty line.
struct Paragraph {
  std::string text{};
  // Printed before the text, whose further lines are aligned with its first word.
  std::string label{};
  LabelLook look = LabelLook::kPlain;
  bool figures = false;   // durations and percentages stand out
  bool verbatim = false;  // the text keeps its lines, however wide the terminal is
  // Printed only where the table's column with this key has no room, or with kSumOfParts where that
  // stands for other columns.
  std::string dropped{};
  Shown shown = Shown::kAlways;
};

// A time with what it consists of: the children sum to it.
struct TimeTree {
  std::string text;
  std::uint64_t ns = 0;
  // For a culprit or a share of the kernel's part, into how many pieces its time is split; 0: no
  // count.
  std::uint64_t count = 0;
  std::vector<TimeTree> children;
};

// A table. JSON has a row's children as tables in the row. CSV has them as separate tables, whose
// first column is the parent's name.
struct Table {
  struct Described : Column {
    std::function<CellValue(std::size_t row)> value;
  };

  std::string key{};  // key in JSON, and in the line "# KEY" of CSV
  Facts facts{};
  std::vector<Described> columns{};
  std::size_t rows = 0, left_out = 0;
  // A table of one row, which JSON has besides the rows; without a row: null.
  std::shared_ptr<const Table> total{};
  std::function<std::vector<Table>(std::size_t row)> children{};
  // `json`, `csv`: that output has the table; `csv_children`: CSV has the rows' child tables.
  bool json = true, csv = false, csv_children = false;
  bool packed = false;  // the page's JSON has the rows as lists, below the columns' keys
  // The page's title for a row's name, if the page has no view of its own for the table. The page
  // then shows the columns of text, with their titles and units.
  std::string page_title{};

  // Returns the first column in text. Rows for which dim() is true are shown as less important.
  std::function<std::string(std::size_t row)> name{};
  std::function<bool(std::size_t row)> dim{};
  // If --budget has no room for all rows, the rows with the greatest weight stay; without this
  // function, the first rows.
  std::function<std::uint64_t(std::size_t row)> weight{};
  // Titles of the first column in each block of columns (Column::block) that text prints; empty:
  // text does not have the table.
  std::vector<std::string> titles{};
  std::vector<Paragraph> before{}, after{};
  // Returns sentences that replace the row's line.
  std::function<std::vector<Paragraph>(std::size_t row)> sentences{};
  bool text_children = false;              // text prints the children's tables
  std::span<const TimeTree> trees{};       // text draws these, which are the rows, as trees
  std::shared_ptr<const Table> in_text{};  // the table that replaces this one in text

  std::shared_ptr<const void> owned{};  // the rows, if the table owns them
};

template <typename Row>
class TableOf : public Table {
 public:
  // `members`: the members of Table that do not come from the rows. `row_name`: a member or a
  // function of the row that gives its first column in text.
  template <typename Name>
  TableOf(Table members, std::span<const Row> all, Name row_name)
      : Table(std::move(members)), all_(all) {
    rows = all.size();
    name = [all, row_name](std::size_t row) -> std::string {
      return std::string(std::invoke(row_name, all[row]));
    };
  }
  template <typename Name>
  TableOf(Table members, std::shared_ptr<const std::vector<Row>> all, Name row_name)
      : TableOf(std::move(members), std::span<const Row>(*all), row_name) {
    owned = std::move(all);
  }
  template <typename Name>
  TableOf(Table members, std::vector<Row>&& all, Name row_name)
      : TableOf(std::move(members), std::make_shared<const std::vector<Row>>(std::move(all)),
                row_name) {}
  // Adds a column. `value`: a member of the row, or a function of it.
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

// Makes all cells of the columns whose keys begin with `prefix` unknown ("-", null).
inline void forget(Table& table, std::string_view prefix) {
  for (Table::Described& column : table.columns)
    if (column.key.starts_with(prefix)) column.value = [](std::size_t) { return CellValue(); };
}

struct NextStep {
  std::string command;  // what to type after "trapline"
  std::string answers;
};

// The output of a command: `trapline report`, explain, stalls, advise, diff, top --batch, the page.
// docs/formats/report.md describes its JSON.
struct Report {
  static constexpr int kVersion = 3;

  Facts head;
  bool cycles = false;  // times are in cycles, not ns
  std::vector<Table> tables;
  std::vector<std::string> notes;  // sentences that a reader needs
  // Only in text: above and below the tables.
  std::vector<Paragraph> before, after;
  std::vector<NextStep> next;  // suggested commands
};

// Returns a note as text shows it, at the end of a report.
[[nodiscard]] inline Paragraph note_paragraph(const std::string& note,
                                              LabelLook look = LabelLook::kStrong) {
  return {.text = note, .label = "note:", .look = look};
}

}  // namespace trapline
