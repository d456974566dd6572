// Makes a session's trace.dat from what the recorder streamed
// (merge/source/trace_dat/unfinished.h), at a recording's end or, if the recorder was killed, on
// request: readers never finish a session.
//
// Pages in regions stay where the recorder wrote them: the tail is written after the head, and the
// holes between are closed. Other pages, and all pages on a file system that cannot do this, are
// copied, and each part's room is freed once its copy is on the disk. The plan is written first, so
// finishing can be killed, lose power or run out of disk space at any point and be repeated.
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
  kNothingToDo,  // trace.dat is complete
  kFinished,     // this call completed it
};

// Completes DIR/trace.dat if a recorder was killed, and reads every page back from the disk, about
// 2 s per GiB. `torn`: the number of pages that do not contain what was written; session.json
// counts them as not written. Errors: not a session; somebody is still recording into it; no
// permission to write; the disk is full; raw/ is damaged.
[[nodiscard]] Result<Finish> finish_session(const std::string& session,
                                            std::uint64_t* torn = nullptr);

// Completes trace.dat for a caller that holds the session's lock. Reads pages back only if `torn`
// is given, which gets each CPU's count: for a disk that may have failed.
[[nodiscard]] Result<void> finish_locked(const Folder& session,
                                         const std::vector<std::string>& cpu_stats,
                                         std::vector<std::uint64_t>* torn = nullptr);

// Adds the pages that finish_locked() found torn as pages that were not written.
void add_torn(const std::vector<std::uint64_t>& pages, std::vector<CpuLoss>& losses);

}  // namespace trapline
