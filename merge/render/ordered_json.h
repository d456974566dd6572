// JSON whose keys stay in the order in which they were added, as the documents of formats list
// them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trapline {

using Json = nlohmann::ordered_json;

}  // namespace trapline
