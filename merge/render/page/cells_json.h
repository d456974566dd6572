// The cells and their combinations as the page's JSON: docs/formats/page.md.
#pragma once

#include <string>

#include "merge/render/page/exits.h"
#include "merge/render/report_json.h"

namespace trapline::page {

struct CellsJson {
  Json values, combos;
  std::string cells;  // JSON: as a tree of values it would be most of the work
};
[[nodiscard]] CellsJson cells_json(const Exits& exits, const Naming& names);

}  // namespace trapline::page
