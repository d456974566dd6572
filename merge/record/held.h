// Makes a session of the events that somebody else's ftrace instance already holds.
//
// Guarantees: no setting of the instance is changed, nothing is written into it, and it stays. As
// with every reader of pages, the events that are taken are removed from its buffers. From each CPU
// at most one buffer's worth is taken, so that the command ends even if the instance keeps
// recording.
#pragma once

#include "merge/record/recorder.h"

namespace trapline::record {

// Takes the events, and returns the exit status 0. Uses only folder, from_instance, symbols,
// trapline_version and say. The Error: nothing was taken, or not everything could be written.
[[nodiscard]] Result<int> record_held(const RecordOptions& options);

}  // namespace trapline::record
