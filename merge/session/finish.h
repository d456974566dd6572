// Makes a session's trace.dat whole from what the recorder streamed (merge/source/trace_dat/
// unfinished.h), at a recording's end or, where the recorder was killed, when it is asked for:
// readers never finish a session.
//
// Pages in regions stay where the recorder wrote them: the tail is written after the head, and the
// holes between are closed. What lies elsewhere, or on a file system that cannot do that, is
// copied, and each part's room given back once its copy is on the disk. The plan of it is written
// first: finishing may be killed, lose the power or run out of disk space at any point and be done
// again.
//
//   last pages on the disk ─ tail ─ plan ─ holes closed, or pages copied ─ all on the disk ─ (where
//   something may have failed) read back ─ trace.dat gets its name ─ raw/ removed ─ (the recorder)
//   session.json says closed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline {

enum class Finish {
  kNothingToDo,  // trace.dat is whole
  kFinished,     // this call made it whole
};

// Makes DIR/trace.dat whole where a recorder was killed, and reads every page back from the disk,
// about 2 s a GiB. `torn`: pages that do not hold what was written, which session.json has as
// not written. Errors: not a session, somebody is still
// recording into it, no permission to write, the disk is full, a damaged raw/ folder.
[[nodiscard]] Result<Finish> finish_session(const std::string& session,
                                            std::uint64_t* torn = nullptr);

// For the recorder, which holds the lock already. Reads back where the disk may have failed: with
// `torn`, which gets each CPU's count.
[[nodiscard]] Result<void> finish_locked(const Folder& session,
                                         const std::vector<std::string>& cpu_stats,
                                         std::vector<std::uint64_t>* torn = nullptr);

// What finish_locked() found, as pages that were not written.
void add_torn(const std::vector<std::uint64_t>& pages, std::vector<CpuLoss>& losses);

}  // namespace trapline
