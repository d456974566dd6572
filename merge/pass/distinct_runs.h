// A run counts once: given twice, it would look like two that agree, or like twice the work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/model/thread_table.h"
#include "merge/source/timeline.h"

namespace trapline {

// A run, by what a copy of its recording has as well.
struct RunGiven {
  std::string path;
  std::uint64_t begin_ns = 0, end_ns = 0, events = 0, exits = 0;
};

// An Error names two recordings that hold the same run.
[[nodiscard]] Result<void> check_distinct(std::span<const RunGiven> runs);
// Of the sources of one kind that lie on the timeline; call when it was read.
[[nodiscard]] Result<void> check_distinct(const Timeline& timeline);

// A recording beside a part of it, or two that overlap: both have a thread's exits, each at the
// same nanosecond. A thread leaves its guest once at a time, so that it is the same run; two hosts,
// whose threads may have the same number, have no such row of exits by chance.
class SharedExits {
 public:
  static constexpr unsigned kRow = 16;

  // Compares the recordings of hosts' kernels whose clocks tell nanoseconds apart; `timeline` is
  // borrowed.
  explicit SharedExits(const Timeline& timeline);
  // Whether there are two to compare; else it need not see an event.
  [[nodiscard]] bool compares() const { return std::ranges::count(compared_, true) > 1; }
  void on(const Event& event) {
    if (std::holds_alternative<KvmExit>(event.payload)) compare(event);
  }
  // An Error names two recordings that hold the same run.
  [[nodiscard]] Result<void> check() const;

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  struct LastExit {
    Timestamp at;
    std::uint64_t rip = 0;
    std::uint32_t cpu = 0, reason = 0;
    std::uint16_t source = 0, other = 0;  // other: that had one of the row, too
    bool shared = false;                  // it has this one
    unsigned row = 0;                     // so many in a row are
  };
  void compare(const Event& event);

  const Timeline& timeline_;
  std::vector<bool> compared_;  // by source
  ThreadTable<LastExit> threads_;
  std::optional<std::pair<std::size_t, std::size_t>> found_;
};

}  // namespace trapline
