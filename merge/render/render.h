// The forms a report is printed in. docs/formats/report.md describes them.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/next_steps.h"
#include "merge/report/report.h"

namespace trapline {

// Where the vCPUs' time went and what the exits cost, in one sentence or two; empty where that is
// not known.
[[nodiscard]] std::string finding_text(const Report& report);
// `words`: with which it says what to ask next.
void print_text(const Report& report, const RecordingWords& words, std::ostream& out,
                const TextStyle& style);
// Version 1 of the schema.
void print_json(const Report& report, std::ostream& out);
// The groups, a row each, with the columns of the JSON rows.
void print_csv(const Report& report, std::ostream& out);

}  // namespace trapline
