// Stalls, as text, JSON and CSV: docs/formats/stalls.md.
#pragma once

#include <ostream>

#include "merge/explain/stalls.h"
#include "merge/render/ordered_json.h"
#include "merge/render/text_table.h"

namespace trapline {

void print_text(const StallsFound& found, std::ostream& out, const TextStyle& style);
void print_json(const StallsFound& found, std::ostream& out);
[[nodiscard]] Json stalls_json(const std::vector<StallRow>& rows);
// A row for each stall, with its largest cause.
void print_csv(const StallsFound& found, std::ostream& out);

}  // namespace trapline
