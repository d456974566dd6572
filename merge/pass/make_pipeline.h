// The pipeline of an opened input: the pass of a command makes one, and `trapline top`, whose
// sources may never end, one for each change of what it asks for.
#pragma once

#include <memory>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/pass/exit_matcher.h"

namespace trapline {

// It hands out the exits of `matcher`, which it borrows, or all where there is none.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(PipelineOptions options, ExitMatcher* matcher,
                                                      std::vector<SpanSink*> sinks);

}  // namespace trapline
