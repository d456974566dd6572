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
//   last pages on the disk ─ tail ─ plan ─ holes closed, or pages copied ─ all on the disk ─ trace.dat
//   gets its name ─ raw/ removed ─ (the recorder) session.json says closed
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/session/session_folder.h"

namespace trapline {

enum class Finish {
  kNothingToDo,  // trace.dat is whole
  kFinished,     // this call made it whole
};

// Makes DIR/trace.dat whole where a recorder was killed. Errors: not a session, somebody is still
// recording into it, no permission to write, the disk is full, a damaged raw/ folder.
[[nodiscard]] Result<Finish> finish_session(const std::string& session);

// For the recorder, which holds the lock already.
[[nodiscard]] Result<void> finish_locked(const Folder& session,
                                         const std::vector<std::string>& cpu_stats);

}  // namespace trapline
