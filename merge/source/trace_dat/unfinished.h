// A recording that its recorder has not finished: it still runs, or it was killed.
//
// While it records, a session holds
//     session.json                closed: false
//     raw/head                    the head of trace.dat
//     raw/start.json              page size, bytes of the head, clocks, CPUs
//     raw/cmdlines                names of threads seen so far
//     raw/cpu0, raw/cpu1, …       pages as they come
//     raw/reserve                 room that is given back when the disk is full
// and the recorder holds a lock on raw/. Finishing (merge/session/finish.h) turns raw/head into
// trace.dat by adding the tail and moving the pages after it, piece by piece. The plan of it
// (raw/plan.json) is written first; the length of trace.dat tells how far it came.
//
// Whatever of that is there is read as the trace.dat that it would become: the head, a tail made in
// memory, and of each CPU the pages up to the last whole one. Nothing is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {

struct StartFacts {
  std::size_t page_size = 4096;
  std::uint64_t head_bytes = 0;
  unsigned cpus = 0;
  std::string clocks, uname, version;
};
[[nodiscard]] Result<void> write_start(const Folder& session, const StartFacts& facts);
// Errors: kDamaged.
[[nodiscard]] Result<StartFacts> read_start(const Folder& session);

// Where the pages of each CPU lie in the trace.dat that is being made.
[[nodiscard]] Result<void> write_plan(const Folder& session, const std::vector<CpuArea>& areas);
[[nodiscard]] Result<std::vector<CpuArea>> read_plan(const Folder& session);

// The tail for what has been streamed so far; pages that were cut off are left out.
[[nodiscard]] Tail tail_of(const Folder& session, const StartFacts& start,
                           const std::vector<std::string>& cpu_stats);

// Whether the folder holds such a recording.
[[nodiscard]] bool is_unfinished(const Folder& session);
[[nodiscard]] bool is_unfinished(const std::string& session);
// Whether `path` is the trace.dat that such a recording would become.
[[nodiscard]] bool is_unfinished_trace(const std::string& path);

// The recording as one file, named DIR/trace.dat.
[[nodiscard]] Result<File> open_unfinished(const std::string& session);

// A trace.dat, finished or not.
[[nodiscard]] Result<File> open_trace_file(std::string path);

}  // namespace trapline::trace_dat
