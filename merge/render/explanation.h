// An Explanation, as text and JSON; intervals of a guest also as CSV.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/explain.h"
#include "merge/report/guest_spans.h"

namespace trapline {

void print_text(const Explanation& explanation, std::ostream& out, const TextStyle& style);
void print_json(const Explanation& explanation, std::ostream& out);

void print_text(const GuestSpansExplained& spans, std::ostream& out, const TextStyle& style);
void print_json(const GuestSpansExplained& spans, std::ostream& out);
// rank,start_ns,interval,interval_ns,part,culprit,ns: the parts of the worst, those that wait by
// culprit. They sum to the interval.
void print_csv(const GuestSpansExplained& spans, std::ostream& out);

}  // namespace trapline
