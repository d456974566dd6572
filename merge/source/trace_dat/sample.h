// Finds a recording's capabilities from samples of each CPU's first, middle and last pages. Reads
// the whole file only if the samples have no kvm_exit, because exits are modelled differently
// without that event.
#pragma once

#include "merge/model/capabilities.h"
#include "merge/source/file.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// Returns the recording's capabilities. Errors: pages cannot be read; the recording has no event.
[[nodiscard]] Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                                       const kernel_events::Formats& formats);

// Returns an Error that says why a recording has no events.
[[nodiscard]] tl::unexpected<Error> no_events(const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
