// Makes sure that a run counts only once: given twice, it would look like two runs that agree, or
// like twice the work.
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

// The properties of a run that a copy of its recording also has.
struct RunGiven {
  std::string path;
  std::uint64_t begin_ns = 0, end_ns = 0, events = 0, exits = 0;
};

// Returns an Error that names two recordings of the same run, if there are two.
[[nodiscard]] Result<void> check_distinct(std::span<const RunGiven> runs);
// Checks that no two sources of one kind on the timeline are the same run. Call this once the
// timeline has been read.
[[nodiscard]] Result<void> check_distinct(const Timeline& timeline);

// Detects that a recording contains part of another, or that two overlap: both then have exits of a
// thread at the same nanoseconds. A row of kRow such exits proves that both contain the same run:
// two hosts, whose threads may have the same number, do not have such a row by chance.
class SharedExits {
 public:
  static constexpr unsigned kRow = 16;

  // Compares the recordings of hosts' kernels whose clocks distinguish nanoseconds. Borrows
  // `timeline`.
  explicit SharedExits(const Timeline& timeline);
  // Returns whether there are two recordings to compare; otherwise on() need not be called.
  [[nodiscard]] bool compares() const { return std::ranges::count(compared_, true) > 1; }
  void on(const Event& event) {
    if (std::holds_alternative<KvmExit>(event.payload)) compare(event);
  }
  // Returns an Error that names two recordings of the same run, if there are two.
  [[nodiscard]] Result<void> check() const;

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  struct LastExit {
    Timestamp at;
    std::uint64_t rip = 0;
    std::uint32_t cpu = 0, reason = 0;
    std::uint16_t source = 0, other = 0;  // other: the source that shares the row's exits
    bool shared = false;                  // `other` has this exit too
    unsigned row = 0;                     // number of shared exits in a row
  };
  void compare(const Event& event);

  const Timeline& timeline_;
  std::vector<bool> compared_;  // by source
  ThreadTable<LastExit> threads_;
  std::optional<std::pair<std::size_t, std::size_t>> found_;
};

}  // namespace trapline
