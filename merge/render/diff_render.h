// The forms a comparison is printed in. docs/formats/diff.md describes them.
#pragma once

#include <ostream>
#include <string>

#include "merge/compare/compare.h"
#include "merge/render/text_table.h"

namespace trapline {

void print_text(const Comparison& comparison, std::ostream& out, const TextStyle& style);
// Version 2 of the schema.
void print_json(const Comparison& comparison, std::ostream& out);
// A line for each row and figure.
void print_csv(const Comparison& comparison, std::ostream& out);

// "stack before after": a line for each stack with its nanoseconds on both sides, as difffolded.pl
// writes them and flamegraph.pl reads them.
void print_folded(const Comparison& comparison, std::ostream& out);

}  // namespace trapline
