// Makes a session's trace.dat from what the recorder streamed, whether it ended well or was killed.
//
// While it records, a session holds
//     session.json                closed: false
//     raw/head                    the head of trace.dat
//     raw/start.json              page size, bytes of the head, clocks, CPUs
//     raw/cmdlines                names of threads seen so far
//     raw/cpu0, raw/cpu1, …       pages as they come
//     raw/reserve                 room that is given back when the disk is full
// and the recorder holds a lock on raw/. Finishing turns raw/head into trace.dat by adding the tail
// and moving the pages behind it, piece by piece, each piece's room given back once it is copied.
// The plan of it (raw/plan.json) is written first: finishing may itself be killed or run out of
// disk space at any point and be done again; the length of trace.dat tells how far it came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

struct StartFacts {
  std::size_t page_size = 4096;
  std::uint64_t head_bytes = 0;
  unsigned cpus = 0;
  std::string clocks, uname, version;
};
[[nodiscard]] Result<void> write_start(const std::string& session, const StartFacts& facts);

// The lock that a recorder holds as long as it lives; an Error when another holds it.
[[nodiscard]] Result<UniqueFd> lock_session(const std::string& session);

enum class Finish {
  kNothingToDo,  // trace.dat is whole
  kFinished,     // this call made it whole
};

// For readers: makes DIR/trace.dat whole where a recorder was killed. Errors: somebody is still
// recording into it, no permission to write, the disk is full, a damaged raw/ folder.
[[nodiscard]] Result<Finish> finish_session(const std::string& session);

// For the recorder, which holds the lock already.
[[nodiscard]] Result<void> finish_locked(const std::string& session,
                                         const std::vector<std::string>& cpu_stats);

}  // namespace trapline
