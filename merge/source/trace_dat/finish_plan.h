// raw/plan.json: the plan for making trace.dat from the streamed pages. The plan is on the disk
// before any page moves, so that a half-finished trace.dat can be read and finished from any point.
//
// There are two ways. If each CPU's pages are in a region of raw/trace.dat (unfinished.h), they
// stay there, and the holes between them are closed. That changes the pages' offsets but never
// their order, so CPU n's pages are the n-th part with data after head and tail. (A file system may
// close a hole extent by extent, so a power cut can leave it half closed.) If holes cannot be
// closed, the pages are copied part by part, and `copied` says how much of the copy is on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {

struct FinishPlan {
  // Pages that will be at `at` in the new trace.dat and are elsewhere now.
  struct Part {
    std::uint64_t at = 0, size = 0;
    std::string file;  // name in raw/
    std::uint64_t offset = 0;
  };
  std::vector<CpuArea> areas;  // where each CPU's pages will be
  std::vector<Part> parts;     // in order; empty: holes are closed
  std::string into;            // the file in raw/ to copy to, which already has head and tail
  std::uint64_t copied = 0;    // bytes of `into` that are on the disk
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

}  // namespace trapline::trace_dat
