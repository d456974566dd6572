// Prints a Report as text, JSON and CSV. The printers know no table by its name: all that they need
// is in the Table (merge/report/table.h). docs/formats/report.md describes the formats.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/render/text_table.h"
#include "merge/report/table.h"

namespace trapline {

void print_text(const Report& report, std::ostream& out, const TextStyle& style);

// Prints {"version", "head", "tables": {KEY: {facts, "rows", "total", "left_out"}}, "notes"}.
void print_json(const Report& report, std::ostream& out);
// Returns the report's JSON in one line without a line end; with `ascii` in ASCII only.
[[nodiscard]] std::string json_line(const Report& report, bool ascii = false);
// Returns a table's object for a script element: ASCII, in one line.
[[nodiscard]] std::string json_of(const Table& table);
// Returns the columns that text prints in this block of the table (Column::block), without those
// that say nothing about any row.
[[nodiscard]] std::vector<const Table::Described*> shown_columns(const Table& table,
                                                                 unsigned block);
// Returns an object of the facts.
[[nodiscard]] std::string json_of(const Facts& facts);

// Prints the first table without a line before it, and each further one after an empty line and "#
// KEY". A row's children are tables "# KEY.CHILD" whose first column is the row's name.
void print_csv(const Report& report, std::ostream& out);

// Returns the report's JSON in at most `bytes`, for programs that pay for what they read. The head
// also has the suggested commands, and `command`, which prints everything, or null. The longest
// tables are cut, as "left_out" counts; counters that are 0 are left out. Errors (kUsage): what
// cannot be cut takes more.
[[nodiscard]] Result<std::string> report_within(const Report& report, const std::string& command,
                                                std::size_t bytes);

}  // namespace trapline
