// A Table as text, JSON, CSV and on the page.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "merge/render/ordered_json.h"
#include "merge/render/text_table.h"
#include "merge/report/table.h"

namespace trapline {

// A block of it after an empty line, without the rows that are absent from the block's first
// column, and below it how many were left out and which columns had no room; nothing where there is
// no row. `title`: of the rows' names. Returns the keys of the columns that had no room.
std::vector<std::string> print_table(const Table& table, std::string_view title, bool cycles,
                                     std::ostream& out, const TextStyle& style, unsigned block = 0);

// An object for a row.
[[nodiscard]] Json row_json(const Table& table, std::size_t row);
[[nodiscard]] Json rows_json(const Table& table);

// {"columns", "rows", "rows_left_out"} as text has them, for the page: docs/formats/page.md.
[[nodiscard]] Json described_json(const Table& table, std::string_view title,
                                  std::size_t most_rows);

// {"columns", "rows"} as rows_json() has them, without the keys in each row.
[[nodiscard]] Json packed_json(const Table& table);

// A line with the columns' keys, then a line for each row.
void print_csv_header(const Table& table, std::ostream& out);
void print_csv_rows(const Table& table, std::ostream& out);
inline void print_csv(const Table& table, std::ostream& out) {
  print_csv_header(table, out);
  print_csv_rows(table, out);
}

}  // namespace trapline
