// A uftrace data directory as a source: function entries and exits as GuestCall, on the directory's
// own clock. From our plugin, from QEMU's uftrace plugin, from `uftrace record` in a guest or on a
// host: file versions 3 and 4, both forms of symbol files.
//
// The threads are uftrace's task ids; vcpu is that of the plugin's tasks, kNoVcpu for others, whose
// cpu is the one on which they were seen last (perf-cpu*.dat, kernel-cpu*.dat). LOST records are
// Lost events. A task that is off the CPU is in a call of linux:schedule, as uftrace shows it.
// Functions of the kernel (kernel-cpu*.dat, names from kallsyms) are the task's that called them,
// above its own; those of tasks that the directory does not list are passed over. Arguments and
// return values are in event_text() and, as they were recorded, in Event::raw. User events are
// passed over; extern.dat is not read: facts() names it. A directory that was cut off is read up to
// the cut; bytes that are no record are counted as damaged.
#pragma once

#include <memory>
#include <string>

#include "backend_ftrace/base/result.h"
#include "merge/source/source.h"

namespace trapline {

// "mono", "boot", "real", "tsc": as sync.txt says; else --clock of the recorded command line; else
// real where the times are after 2001, which is what QEMU's own plugin writes; else mono.
[[nodiscard]] Result<std::unique_ptr<Source>> open_uftrace(const std::string& path);

}  // namespace trapline
