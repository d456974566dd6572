// Advice, as text, JSON and CSV: docs/advise.md.
#pragma once

#include <ostream>

#include "merge/explain/advise.h"
#include "merge/render/text_table.h"

namespace trapline {

void print_text(const Advice& advice, std::ostream& out, const TextStyle& style);
void print_json(const Advice& advice, std::ostream& out);
// A row for each change, those without a figure last.
void print_csv(const Advice& advice, std::ostream& out);

}  // namespace trapline
