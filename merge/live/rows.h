// The rows of a frame: sums of its cells by some dimensions, only of cells inside a scope.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/live/engine.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"

namespace trapline::live {

// The part that is looked at; empty: everything.
struct Scope {
  VcpuFilter vcpus;
  std::optional<ThreadId> thread;
  std::optional<std::uint64_t> reason, device;  // words of a cell's key
  [[nodiscard]] bool holds(const GroupKey& key, const Naming& naming) const;
  [[nodiscard]] bool holds(ThreadId of, const Naming& naming) const;
};

struct LiveRow {
  std::string key;
  Distribution total;
  Parts parts{};
  std::uint64_t max_at_ns = 0;                // when the longest began
  std::uint64_t carried = 0, carried_ns = 0;  // of the exits that began before the interval
  bool halts = false;                         // all of them are halts
  GroupKey cell;                              // of the longest
};

// Returns the rows, the largest by `sort` first. `by` contains dimensions of the engine's cells.
[[nodiscard]] std::vector<LiveRow> rows_of(const Frame& frame, const std::vector<Dimension>& by,
                                           const Scope& scope, SortBy sort, const Engine& engine);

// Returns the text of a cell's key in one of the dimensions of --by.
[[nodiscard]] std::string dimension_text(const GroupKey& cell, Dimension dimension,
                                         const Engine& engine);

// Returns the vCPUs of the scope, in the order of their names.
[[nodiscard]] std::vector<VcpuRow> vcpus_of(const Frame& frame, const Scope& scope,
                                            const Engine& engine);

// Returns the slowest exits of the scope, the slowest first; halts too if the scope has nothing
// else.
[[nodiscard]] std::vector<SlowExit> slow_of(const Frame& frame, const Scope& scope,
                                            const Engine& engine);

}  // namespace trapline::live
