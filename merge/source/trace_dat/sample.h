// Finds a recording's capabilities by a bounded look at each CPU's first, middle and last pages. It
// reads the whole file only if no kvm_exit was seen, because its absence changes what a span is.
#pragma once

#include "merge/model/capabilities.h"
#include "merge/source/file.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// Errors: pages cannot be read; the recording has no event.
[[nodiscard]] Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                                       const kernel_events::Formats& formats);

// Returns an Error that says why a recording has no events.
[[nodiscard]] tl::unexpected<Error> no_events(const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
