// An Explanation, as text and JSON.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/explain.h"

namespace trapline {

void print_text(const Explanation& explanation, std::ostream& out, const TextStyle& style);
void print_json(const Explanation& explanation, std::ostream& out);

}  // namespace trapline
