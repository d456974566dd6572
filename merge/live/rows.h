// The rows of a frame: its cells summed up by some dimensions, those inside a scope only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/live/engine.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"

namespace trapline::live {

// What is looked at: empty, all of it.
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
  bool halts = false;                         // all of them are
  GroupKey cell;                              // of the longest
};

// The largest by `sort` first. `by` is of the dimensions that the engine's cells have.
[[nodiscard]] std::vector<LiveRow> rows_of(const Frame& frame, const std::vector<Dimension>& by,
                                           const Scope& scope, SortBy sort, const Engine& engine);

// The text of a cell's key in one of the dimensions of --by.
[[nodiscard]] std::string dimension_text(const GroupKey& cell, Dimension dimension,
                                         const Engine& engine);

// The vCPUs of the scope, in the order of their names.
[[nodiscard]] std::vector<VcpuRow> vcpus_of(const Frame& frame, const Scope& scope,
                                            const Engine& engine);

// The slowest exits of the scope, the slowest first; halts too where the scope has nothing else.
[[nodiscard]] std::vector<SlowExit> slow_of(const Frame& frame, const Scope& scope,
                                            const Engine& engine);

}  // namespace trapline::live
