// An Explanation, as text and JSON; intervals of a guest also as CSV.
#pragma once

#include <ostream>

#include "merge/explain/explain.h"
#include "merge/explain/guest_spans.h"
#include "merge/render/ordered_json.h"
#include "merge/render/text_table.h"

namespace trapline {

// `steps`: also what happened in order, and QEMU's events.
void print_text(const Explanation& explanation, bool steps, std::ostream& out,
                const TextStyle& style);
void print_json(const Explanation& explanation, std::ostream& out);

// A time and its parts, a line each, with their share of the whole.
void print_tree(const ExplainNode& tree, bool cycles, std::ostream& out, const TextStyle& style);

void print_text(const GuestSpansExplained& spans, std::ostream& out, const TextStyle& style);
void print_json(const GuestSpansExplained& spans, std::ostream& out);
// rank,start_ns,interval,interval_ns,part,culprit,ns: the parts of the worst, those that wait by
// culprit. They sum to the interval.
void print_csv(const GuestSpansExplained& spans, std::ostream& out);

// report --by guest-span: a row for the intervals of each value, then who kept the vCPUs waiting in
// all of them. `top`: the first rows only; 0: all.
void print_span_table(const GuestSpansExplained& spans, std::size_t top, std::ostream& out,
                      const TextStyle& style);
void print_span_table_json(const GuestSpansExplained& spans, std::ostream& out);
// The same for the page, of the first `most` rows, and the worst of them as explain has them.
[[nodiscard]] Json guest_spans_json(const GuestSpansExplained& spans, std::size_t most);
// interval,count,total_ns,p50_ns,p99_ns,max_ns,guest_ns,…,not_recorded_ns: a row of each value.
void print_span_table_csv(const GuestSpansExplained& spans, std::ostream& out);

}  // namespace trapline
