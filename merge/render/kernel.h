// --kernel, as text and as rows of CSV.
#pragma once

#include <ostream>

#include "merge/render/text_table.h"
#include "merge/report/report.h"

namespace trapline {

void print_kernel(const Report& report, std::ostream& out, const TextStyle& style);
// reason,part,ns,total_ns,count,max_ns
void print_kernel_csv(const Report& report, std::ostream& out);

}  // namespace trapline
