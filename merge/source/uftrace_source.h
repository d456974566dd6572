// A uftrace data directory as a source: function entries and exits as GuestCall, on the directory's
// own clock. From our plugin, from QEMU's uftrace plugin, from `uftrace record` in a guest or on a
// host: file versions 3 and 4, both forms of symbol files.
//
// The threads are uftrace's task ids; vcpu is that of the plugin's tasks, of others the CPU on which
// the task was scheduled last (perf-cpu*.dat), kNoVcpu where nothing tells. LOST records are Lost
// events. A task that is off the CPU (perf-cpu*.dat) is in a call of
// linux:schedule, as uftrace shows it. Arguments and return values are in event_text() and, as they
// were recorded, in Event::raw. User events are passed over; kernel-cpu*.dat and extern.dat are not
// read: facts() names them. A directory that was cut off
// is read up to the cut; bytes that are no record are counted as damaged.
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
