// The pages of all CPUs in one file, those of each CPU in a region of its own, far from the others:
// what lies between was never written and takes no room. So pages stay where they were written, and
// at the end the holes are closed (merge/session/finish.h).
//
// Where data lies is asked of the file system (SEEK_DATA, SEEK_HOLE), which knows it after a power
// cut as well: what was not written by then reads as a hole, never as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::trace_dat {

struct Regions {
  std::uint64_t first = 0;  // offset of CPU 0's, a multiple of every page size
  std::uint64_t bytes = 0;  // of each, likewise; 0: there are none
  [[nodiscard]] bool any() const { return bytes != 0; }
  [[nodiscard]] std::uint64_t at(std::size_t cpu) const { return first + cpu * bytes; }
};

struct Run {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  auto operator<=>(const Run&) const = default;
};

// The first part of [from, to) that holds data, rounded outwards to whole pages. Errors, here and
// below: the file system does not say where data is, which is not the same as that there is none.
[[nodiscard]] Result<std::optional<Run>> next_run(int fd, std::uint64_t from, std::uint64_t to,
                                                  std::size_t page_size);

// All of them in order; kDamaged: there are more than `most`.
[[nodiscard]] Result<std::vector<Run>> runs_in(int fd, std::uint64_t from, std::uint64_t to,
                                               std::size_t page_size, std::size_t most);

// The bytes of the whole pages that begin at `from`, up to the first that was not written.
[[nodiscard]] Result<std::uint64_t> pages_at(int fd, std::uint64_t from, std::uint64_t to,
                                             std::size_t page_size);

}  // namespace trapline::trace_dat
