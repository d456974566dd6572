// A Report as text, JSON and CSV. The printers know no table by its name: what each says is in the
// Table (merge/report/table.h). docs/formats/report.md describes the forms.
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

// {"version", "head", "tables": {KEY: {facts, "rows", "total", "left_out"}}, "notes"}.
void print_json(const Report& report, std::ostream& out);
// The same in one line, without its end; ASCII where that is asked for.
[[nodiscard]] std::string json_line(const Report& report, bool ascii = false);
// A table's object, for a script element: ASCII, in one line.
[[nodiscard]] std::string json_of(const Table& table);
// The columns that text has in this block, without those that say nothing of any row.
[[nodiscard]] std::vector<const Table::Described*> shown_columns(const Table& table,
                                                                 unsigned block);
// An object of the facts.
[[nodiscard]] std::string json_of(const Facts& facts);

// The first table without a line before it; each further one after an empty line and "# KEY". A
// row's children are tables "# KEY.CHILD" whose first column is the row's name.
void print_csv(const Report& report, std::ostream& out);

// The report's JSON in so many bytes, for programs that pay for what they read: the head also has
// what to ask next, and `command`, which prints all, or null. The longest tables are cut, which
// "left_out" counts; a counter that is 0 is left out. Errors (kUsage): what stays takes more.
[[nodiscard]] Result<std::string> report_within(const Report& report, const std::string& command,
                                                std::size_t bytes);

}  // namespace trapline
