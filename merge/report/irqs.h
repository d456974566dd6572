// Of --irq, for tests.
#pragma once

#include <string>

#include "merge/analyze/irq_tracker.h"

namespace trapline {

// Between which events the times of interrupts lie, of those that came.
[[nodiscard]] std::string irq_stages(const IrqTracker& tracker);

}  // namespace trapline
