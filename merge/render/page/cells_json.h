// The cells and their combinations as tables of the page: docs/formats/page.md.
#pragma once

#include <vector>

#include "merge/pass/naming.h"
#include "merge/render/page/exits.h"
#include "merge/report/table.h"

namespace trapline::page {

// "combos" and "cells".
[[nodiscard]] std::vector<Table> cell_tables(const Exits& exits, const Naming& names);

}  // namespace trapline::page
