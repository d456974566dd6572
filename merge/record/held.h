// Makes a session of the events that somebody else's ftrace instance holds already.
//
// Guarantees: no setting of the instance is changed, nothing is written into it, and it stays. As
// with every reader of pages, the events that are taken are removed from its buffers. Of each CPU
// no more is taken than its buffer can hold, so that an instance that goes on recording does not
// prevent the end.
#pragma once

#include "merge/record/recorder.h"

namespace trapline::record {

// Uses of RecordOptions: folder, from_instance, symbols, trapline_version, say. Returns the exit
// status 0. The Error means that nothing was taken, or says what could not be written.
[[nodiscard]] Result<int> record_held(const RecordOptions& options);

}  // namespace trapline::record
