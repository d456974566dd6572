// JSON whose keys stay in the order in which they were added, which is that of docs/formats.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trapline {

using Json = nlohmann::ordered_json;

}  // namespace trapline
