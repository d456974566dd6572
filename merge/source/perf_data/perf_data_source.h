// A perf.data as a source: perf record of tracepoints, perf kvm stat record, in a file or from a
// pipe. A tracepoint's sample holds the kernel's record of the event as ftrace has it, and its
// format is in the file, so it is decoded as a trace.dat's.
//
//   file → RecordReader → sample, lost, comm, fork → RecordOrder → decode → Event
//
// Losses (LOST, THROTTLE, and at the end LOST_SAMPLES) are Lost events of their CPU; threads' names
// and processes come from perf's COMM and FORK records. What comes later than perf's rounds allow
// is counted as damaged. A file that was cut is read up to its last whole record and ends with an
// error.
#pragma once

#include <memory>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/model/processes.h"
#include "merge/source/source.h"

namespace trapline {

// Errors: those of perf_data::read_layout.
[[nodiscard]] Result<std::unique_ptr<Source>> open_perf_data(const std::string& path);

// The processes of the threads that were there when it began; empty where it cannot be read.
[[nodiscard]] Processes perf_data_processes(const std::string& path);

}  // namespace trapline
