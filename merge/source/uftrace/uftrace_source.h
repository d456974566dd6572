// Reads a uftrace data directory as a source: function entries and exits become GuestCall events on
// the directory's own clock. Reads those of our plugin, of QEMU's uftrace plugin, and of `uftrace
// record` in a guest or on a host: file versions 3 and 4, both forms of symbol files.
//
// Threads are uftrace's task ids. vcpu is set for the plugin's tasks and kNoVcpu for others; cpu is
// where a task of the others was seen last (perf-cpu*.dat, kernel-cpu*.dat). LOST records become
// Lost events. A task off the CPU is in a call of linux:schedule, as uftrace shows it. Functions of
// the kernel (kernel-cpu*.dat, names from kallsyms) belong to the task that called them, above its
// own; those of tasks that the directory does not list are skipped. Arguments and return values are
// in event_text() and, as recorded, in Event::raw. User events are returned undecoded. extern.dat
// is not read; facts() names it. A directory that was cut off is read up to the cut; bytes that are
// not a record count as damaged.
#pragma once

#include <memory>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/source/source.h"

namespace trapline {

// Opens a directory. Its clock is "mono", "boot", "real" or "tsc": the one in sync.txt; else
// --clock of the recorded command line; else real if the times are after 2001, as QEMU's own plugin
// writes them; else mono.
[[nodiscard]] Result<std::unique_ptr<Source>> open_uftrace(const std::string& path);

}  // namespace trapline
