// Which witnesses a recording holds: a bounded look at each CPU's first, middle and last pages; the
// whole file only when no kvm_exit was seen, since its absence changes what a span is.
#pragma once

#include "merge/model/capabilities.h"
#include "merge/source/file.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/trace_dat/layout.h"

namespace trapline::trace_dat {

// Errors: those of reading pages, no event at all.
[[nodiscard]] Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                                       const kernel_events::Formats& formats);

// Says why a recording has none.
[[nodiscard]] tl::unexpected<Error> no_events(const File& file, const Layout& layout);

}  // namespace trapline::trace_dat
