// Texts of interrupts.
#pragma once

#include <string>

#include "merge/analyze/irq_tracker.h"

namespace trapline {

// Returns between which events the times of interrupts are, for the events that were recorded.
[[nodiscard]] std::string irq_stages(const IrqTracker& tracker);
// Returns "pin 4", "msi" or "local".
[[nodiscard]] std::string origin_text(IrqSpan::Origin origin, std::uint64_t pin);

}  // namespace trapline
