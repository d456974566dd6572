// The names that a VMM's events had when only QEMU's were known.
#pragma once

#include "merge/analyze/vmm/event_reader.h"

namespace trapline {

using QemuEvent = VmmEvent;
using QemuEventReader = VmmEventReader;

}  // namespace trapline
