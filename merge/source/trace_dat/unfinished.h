// A recording that its recorder has not finished: it still runs, or it was killed.
//
// While the recorder runs, a session contains
//     session.json                closed: false
//     raw/start.json              page size, bytes of the head, clocks, CPUs, regions
//     raw/trace.dat               the head of trace.dat, then the pages of each CPU in its region
//                                 (if the file system can close the holes later)
//     raw/cpu0, raw/cpu1, …       pages if there are no regions, or if a CPU's region is full
//     raw/cmdlines                names of threads seen so far
//     raw/reserve                 room that is given back when the disk is full
// and the recorder holds a lock on raw/. Finishing (merge/session/finish.h) makes trace.dat from
// these files; its plan (FinishPlan) is written before anything moves.
//
// The files that exist are read as the trace.dat that they would become: the head, a tail made in
// memory, and each CPU's pages up to the last whole one. Reading writes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {

// The pages of all CPUs in one file, each CPU's in a region of its own far from the others. The
// holes between the pages were never written and take no room. So pages stay where they were
// written, and at the end the holes are closed (merge/session/finish.h).
//
// The file system reports where data is (SEEK_DATA, SEEK_HOLE), also after a power cut: what was
// not written by then is a hole, never data.
struct Regions {
  std::uint64_t first = 0;  // offset of CPU 0's region, a multiple of every page size
  std::uint64_t bytes = 0;  // size of each region, also such a multiple; 0: there are no regions
  [[nodiscard]] bool any() const { return bytes != 0; }
  [[nodiscard]] std::uint64_t at(std::size_t cpu) const { return first + cpu * bytes; }
};

// Returns the first part of [from, to) with data, rounded outwards to whole pages. Errors, here and
// below: the file system does not report where data is; that is not the same as no data.
[[nodiscard]] Result<std::optional<Run>> next_run(int fd, std::uint64_t from, std::uint64_t to,
                                                  std::size_t page_size);

// Returns all parts of [from, to) with data, in order; kDamaged: there are more than `most`.
[[nodiscard]] Result<std::vector<Run>> runs_in(int fd, std::uint64_t from, std::uint64_t to,
                                               std::size_t page_size, std::size_t most);

// Returns the size in bytes of the whole pages from `from` up to the first that was not written.
[[nodiscard]] Result<std::uint64_t> pages_at(int fd, std::uint64_t from, std::uint64_t to,
                                             std::size_t page_size);

inline constexpr const char* kStreamName = "trace.dat";  // name in raw/
inline constexpr const char* kStream = "raw/trace.dat";
[[nodiscard]] std::string cpu_name(std::size_t cpu);  // name in raw/

struct StartFacts {  // raw/start.json
  std::size_t page_size = 4096;
  std::uint64_t head_bytes = 0;
  unsigned cpus = 0;
  std::string clocks;  // content of trace_clock: "local [mono] …"
  std::string uname, version;
  std::uint64_t first_region = 0, region_bytes = 0;
  [[nodiscard]] Regions regions() const { return {first_region, region_bytes}; }
};
[[nodiscard]] Result<void> write_start(const Folder& session, const StartFacts& facts);
// Reads raw/start.json. Errors: kDamaged.
[[nodiscard]] Result<StartFacts> read_start(const Folder& session);

// The bytes of a CPU's whole pages: those in its region, and those in its own file, which follow.
struct StreamedPages {
  std::uint64_t in_region = 0, in_file = 0;
};
// Returns the pages of each CPU; `stream` is raw/trace.dat. A file that cannot be examined is an
// Error; it does not count as missing.
[[nodiscard]] Result<std::vector<StreamedPages>> look_at_pages(const Folder& session,
                                                               const StartFacts& start, int stream);

// Makes the tail of the trace.dat that will have these pages. `cpu_stats`: trace_dat_tail().
[[nodiscard]] Result<Tail> tail_of(const Folder& session, const StartFacts& start,
                                   const std::vector<StreamedPages>& pages,
                                   const std::vector<std::string>& cpu_stats);

// raw/plan.json: the plan for making trace.dat from the streamed pages. The plan is on the disk
// before any page moves, so that a half-finished trace.dat can be read and finished from any point.
//
// There are two ways. If each CPU's pages are in a region of raw/trace.dat (Regions), they stay
// there, and the holes between them are closed. That changes the pages' offsets but never their
// order, so CPU n's pages are the n-th part with data after head and tail. (A file system may close
// a hole extent by extent, so a power cut can leave it half closed.) If holes cannot be closed, the
// pages are copied part by part, and `copied` says how much of the copy is on the disk.
struct FinishPlan {
  // Pages that will be at `at` in the new trace.dat and are elsewhere now.
  struct Part {
    std::uint64_t at = 0, size = 0;
    std::string file;  // name in raw/
    std::uint64_t offset = 0;
  };
  std::vector<Run> areas;    // where each CPU's pages will be
  std::vector<Part> parts;   // in order; empty: holes are closed
  std::string into;          // the file in raw/ to copy to, which already has head and tail
  std::uint64_t copied = 0;  // bytes of `into` that are on the disk
  [[nodiscard]] bool copies() const { return !into.empty(); }
  // Returns where the pages begin in the new trace.dat: at the end of the head and the tail.
  [[nodiscard]] std::uint64_t begin() const { return areas.empty() ? 0 : areas.front().offset; }
};

[[nodiscard]] Result<void> write_plan(const Folder& session, const FinishPlan& plan);
// Reads the plan. Errors: kDamaged.
[[nodiscard]] Result<FinishPlan> read_plan(const Folder& session);

// Finds where the pages are now in raw/trace.dat (`fd`), for a plan that closes holes, and returns
// them as parts to copy. Errors: kDamaged if pages are missing.
[[nodiscard]] Result<std::vector<FinishPlan::Part>> find_parts(const Folder& session,
                                                               const FinishPlan& plan, int fd,
                                                               std::size_t page_size);

// Returns where the streamed pages are now, for a trace.dat with the tail `tail`, as parts to copy.
[[nodiscard]] std::vector<FinishPlan::Part> parts_of(const StartFacts& start, const Tail& tail,
                                                     const std::vector<StreamedPages>& pages);

// Returns whether the folder contains an unfinished recording.
[[nodiscard]] bool is_unfinished(const Folder& session);
[[nodiscard]] bool is_unfinished(const std::string& session);
// Returns whether `path` is the trace.dat that an unfinished recording would become.
[[nodiscard]] bool is_unfinished_trace(const std::string& path);

// Opens an unfinished recording as one composed file with the path DIR/trace.dat.
[[nodiscard]] Result<File> open_unfinished(const std::string& session);

// Opens a trace.dat, finished or not.
[[nodiscard]] Result<File> open_trace_file(std::string path);

[[nodiscard]] tl::unexpected<Error> damaged_session(const std::string& path);

}  // namespace trapline::trace_dat
