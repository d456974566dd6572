// What a program's own events can tell, which are read as markers are: simpletrace files, QEMU's
// logs.
#pragma once

#include "merge/model/capabilities.h"

namespace trapline {

inline constexpr Capabilities kProgramsEvents{.markers = true};

}  // namespace trapline
