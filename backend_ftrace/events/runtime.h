// What the parts of the event library need of each other. Nothing here needs the C++ library.
#pragma once

#include <cstdint>

namespace trapline {

// Opens what a group's backends need, from the environment; once per backend.
void prepare_outputs(std::uint32_t backends);

}  // namespace trapline
