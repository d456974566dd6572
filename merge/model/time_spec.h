// A point in time as users give it: on the recording's clock, or from its first event on.
#pragma once

#include <cstdint>

#include "merge/model/event.h"

namespace trapline {

struct TimeSpec {
  std::uint64_t ns = 0;
  bool relative = false;  // "+500ms"
  [[nodiscard]] Timestamp resolve(Timestamp first) const {
    return Timestamp(relative ? first.ns() + ns : ns);
  }
};

}  // namespace trapline
