// Makes a session's trace.dat whole from what the recorder streamed (merge/source/trace_dat/
// unfinished.h), at a recording's end or, where the recorder was killed, when it is asked for:
// readers never finish a session.
//
// Finishing turns raw/head into trace.dat by adding the tail and moving the pages after it, piece
// by piece, each piece's room given back once it is copied. The plan of it is written first:
// finishing may itself be killed or run out of disk space at any point and be done again; the
// length of trace.dat tells how far it came.
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
