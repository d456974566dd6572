// One interval of a live view: plain data, small enough that the last minutes are kept.
//
//   exits ──> cells (vCPU x reason x device x the dimensions of --by) ──> rows by any of these
//
// A cell counts the exits that ended in the interval. Those that began before it are in it too, and
// are told apart (carried): without them, a cell has what `trapline report` gives for the interval.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/live/distribution.h"
#include "merge/model/loss_counts.h"
#include "merge/report/dimensions.h"
#include "merge/report/waits.h"

namespace trapline::live {

// What cells are always told apart by; the dimensions of --by follow.
inline constexpr std::array kBaseDimensions{Dimension::kVcpu, Dimension::kReason,
                                            Dimension::kDevice};
enum BaseWord : std::size_t { kVcpuWord, kReasonWord, kDeviceWord };

// One exit, with what a line of a table says of it.
struct SlowExit {
  Timestamp start;
  std::uint64_t total = 0;
  Parts parts{};
  ThreadId thread{};
  GroupKey key;  // of its cell
  KvmDetail detail = kNoDetail;
  NameId vmm_event = kNoName;
  std::uint64_t rip = 0;
  bool halt = false;
};

struct Cell {
  GroupKey key;
  Distribution total;
  Parts parts{};
  std::uint64_t carried = 0, carried_ns = 0;  // of the exits that began before the interval
  SlowExit slowest;
};

// Where a vCPU's time went between begin and end, the exit that was open at each end included: at
// most the interval.
struct VcpuUse {
  ThreadId thread{};
  VcpuTotals totals;
};

// A vCPU made no progress: `trapline stalls`.
struct SeenStall {
  ThreadId thread{};
  Timestamp begin, end;
  bool open = false;  // it lasts
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

struct RequestTotals {
  std::string key;
  Distribution total;
};

struct Frame : LossCounts {
  Timestamp begin, end;
  std::vector<Cell> cells;
  std::uint64_t folded = 0;  // exits beyond the most cells
  std::vector<VcpuUse> vcpus;
  std::vector<SlowExit> slow;  // the slowest that were no halts, the slowest first
  WaitReport waits;
  std::vector<RequestTotals> requests;
  std::optional<SeenStall> longest_stall;  // of those that ended in the last minute, or last
  std::uint64_t events = 0, damaged_events = 0;

  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
  // About so many bytes.
  [[nodiscard]] std::size_t size() const;
};

}  // namespace trapline::live
