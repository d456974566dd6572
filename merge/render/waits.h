// --waits and --steal, as text and as rows of CSV.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/report.h"

namespace trapline {

void print_waits(const Report& report, std::ostream& out, const TextStyle& style);
// The rows of both, after an empty line.
void print_waits_csv(const Report& report, std::ostream& out);

}  // namespace trapline
