// Reads a perf.data as a source: perf record of tracepoints, or perf kvm stat record, in a file or
// from a pipe. A tracepoint's sample holds the same record of the event as ftrace's buffer, and the
// file has the event's format, so the sample is decoded like an event of a trace.dat.
//
//   file → RecordReader → sample, lost, comm, fork → RecordOrder → decode → Event
//
// Losses (LOST, THROTTLE, and at the end LOST_SAMPLES) are Lost events of their CPU; threads' names
// and processes come from perf's COMM and FORK records. A record that comes later than perf's
// rounds allow is counted as damaged. A file that was cut off is read up to its last whole record
// and ends with an error.
#pragma once

#include <memory>

#include "backend_ftrace/base/result.h"
#include "merge/source/perf_data/layout.h"
#include "merge/source/source.h"

namespace trapline {

// Opens a perf.data. Errors: those of perf_data::read_layout.
[[nodiscard]] Result<std::unique_ptr<Source>> open_perf_data(perf_data::Files files);

}  // namespace trapline
