// raw/plan.json: how trace.dat is being made of the pages that were streamed. It is on the disk
// before any page moves, so that what is half done can be read, and done again, from any point.
//
// Two ways. Pages in regions stay where they are, and the holes between them are closed: that
// changes where data lies in raw/trace.dat, never its order, so CPU n's pages are the n-th part of
// what holds data from the end of the tail on (a file system may close a hole extent by extent: a
// power cut leaves it half closed). Where that cannot be, the pages are copied part by part, and
// `copied` says how far what was copied is on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {

struct FinishPlan {
  // Pages at `at` of the trace.dat to be that lie elsewhere.
  struct Part {
    std::uint64_t at = 0, size = 0;
    std::string file;  // in raw/
    std::uint64_t offset = 0;
  };
  std::vector<CpuArea> areas;  // where each CPU's pages will lie
  std::vector<Part> parts;     // in order; none: holes are closed
  std::string into;            // the file in raw/ that they are copied to, head and tail in it
  std::uint64_t copied = 0;    // bytes of it that are on the disk
  [[nodiscard]] bool copies() const { return !into.empty(); }
  // Bytes of the head and the tail.
  [[nodiscard]] std::uint64_t begin() const { return areas.empty() ? 0 : areas.front().offset; }
};

[[nodiscard]] Result<void> write_plan(const Folder& session, const FinishPlan& plan);
// Errors: kDamaged.
[[nodiscard]] Result<FinishPlan> read_plan(const Folder& session);

// Where the plan's pages lie now, in raw/trace.dat (`fd`), of a plan that closes holes: as parts
// to copy. Errors: kDamaged where they are not all there.
[[nodiscard]] Result<std::vector<FinishPlan::Part>> find_parts(const Folder& session,
                                                               const FinishPlan& plan, int fd,
                                                               std::size_t page_size);

}  // namespace trapline::trace_dat
