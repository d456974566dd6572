// The page without its data, made from merge/page at build time (merge/render/CMakeLists.txt).
#pragma once

#include <string_view>

namespace trapline {

struct PageTemplate {
  std::string_view before, after;  // before and after the data; both empty in a build without node
};
[[nodiscard]] PageTemplate page_template();

}  // namespace trapline
