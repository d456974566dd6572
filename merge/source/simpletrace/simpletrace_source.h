// Reads a simpletrace file as a source: each event is a Marker with the text that QEMU's ftrace
// backend would have written, "NAME ARGS", on CLOCK_MONOTONIC. The file has processes but no
// threads: the thread is the process's first one, and the CPU is 0.
//
// Records may be slightly out of order (each gets its time before it is written): the source sorts
// within a window of 4,096 records and counts a record that comes even later as damaged. Dropped
// events become a Lost event; a damaged or incomplete file ends with an error status after its last
// whole record.
#pragma once

#include <memory>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/source.h"

namespace trapline {

// `events_path` is the trace-events-all of the program that wrote the file.
[[nodiscard]] Result<std::unique_ptr<Source>> open_simpletrace(File file,
                                                               const std::string& events_path);

}  // namespace trapline
