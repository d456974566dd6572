// A source whose times a ClockMap turns into the timeline's.
#pragma once

#include <memory>

#include "merge/clock/alignment.h"
#include "merge/source/source.h"

namespace trapline {

// The source itself where its clock is the timeline's, and that is certain.
[[nodiscard]] std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                                 const clocks::AlignedSource& aligned,
                                                 const std::string& timeline_clock);

}  // namespace trapline
