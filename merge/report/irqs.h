// Parts of --irq that tests use.
#pragma once

#include <string>

#include "merge/analyze/irq_tracker.h"

namespace trapline {

// Returns between which events the times of interrupts are, for the events that were recorded.
[[nodiscard]] std::string irq_stages(const IrqTracker& tracker);

}  // namespace trapline
