// The way of requests beyond the VMM: the host's block layer, vhost workers.
#pragma once

#include <ostream>

#include "merge/render/report_json.h"
#include "merge/render/text_table.h"
#include "merge/report/report.h"

namespace trapline {

// Tables after those of requests; nothing where no event of them was recorded.
void print_request_way(const Report& report, std::ostream& out, const TextStyle& style);
// Adds `block`, `irqfd`, `posted` to a row of `request_paths`, where there is something to say.
void add_request_way(Json& json, const RequestPathRow& row);
[[nodiscard]] Json vhost_json(const Report& report);

}  // namespace trapline
