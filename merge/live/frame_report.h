// Turns a frame into a report of its interval: rows, which add up the cells inside a scope by some
// dimensions, and the tables that reports have. docs/top.md lists what a line of `top --batch` has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/live/engine.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline::live {

// The part of a frame that is shown; an empty scope is everything.
struct Scope {
  VcpuFilter vcpus{};
  std::optional<ThreadId> thread{};
  std::optional<std::uint64_t> reason{}, device{};  // words of a cell's key
  [[nodiscard]] bool holds(ThreadId of, const Naming& naming) const {
    return (!thread || of == *thread) && naming.vcpus.fits(of, vcpus);
  }
  [[nodiscard]] bool holds(const ExitSpan& exit, const Naming& naming) const {
    return (!reason || packed(exit.reason, exit.source) == *reason) &&
           (!device || exit.device == *device) && holds(exit.thread, naming);
  }
};

struct LiveRow : GroupRow {
  std::uint64_t carried = 0, carried_ns = 0;  // of the exits that began before the interval
  GroupKey cell;                              // the key of one of the row's cells
};

// Returns the rows, the largest by `sort` first. `by` contains dimensions of the engine's cells.
[[nodiscard]] std::vector<LiveRow> rows_of(const Frame& frame, const std::vector<Dimension>& by,
                                           const Scope& scope, SortBy sort, const Engine& engine);

// Returns the dimensions as --by takes them: "reason,device".
[[nodiscard]] std::string text_of(const std::vector<Dimension>& by);
// Returns the text of a cell's key in one of the dimensions of --by.
[[nodiscard]] std::string dimension_text(const GroupKey& cell, Dimension dimension,
                                         const Engine& engine);

// Returns a report's data for the frame's interval, without rows of exits. The times of each vCPU
// add up to the interval.
[[nodiscard]] ReportData data_of(const Frame& frame, const Scope& scope, const Engine& engine);

// Returns the slowest exits of the scope, the slowest first; halts only if the scope is of one
// reason.
[[nodiscard]] Table slow_table(const Frame& frame, const Scope& scope, std::size_t most,
                               const ReportData& data, const Engine& engine);
[[nodiscard]] Table request_table(const Frame& frame);

// Returns a frame's line of JSON, without the line end.
[[nodiscard]] std::string batch_line(const Frame& frame, const Engine& engine);

}  // namespace trapline::live
