// What an ftrace instance of somebody else holds already, as a session.
//
// Guarantees: no setting of the instance is changed, nothing is written into it, and it stays. What
// is taken is gone from its buffers, as with every reader of their pages. Of each CPU no more is
// taken than its buffer can hold, so that an instance that records on does not hold up the end.
#pragma once

#include "merge/record/recorder.h"

namespace trapline::record {

// Of RecordOptions: folder, from_instance, symbols, trapline_version, say. The exit status is 0. An
// Error means that nothing was taken, or says what of it could not be written.
[[nodiscard]] Result<int> record_held(const RecordOptions& options);

}  // namespace trapline::record
