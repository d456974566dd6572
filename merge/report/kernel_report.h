// What --kernel reports: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/report/top_rows.h"

namespace trapline {

// A sub-part of the kernel's time in the exits of one reason.
struct KernelRow {
  std::string reason, part;
  std::uint64_t ns = 0;
  std::optional<std::uint64_t> total_ns;  // of a function: with its callees
  std::uint64_t count = 0;                // pieces
  std::uint64_t max_ns = 0;               // the longest piece
};

// The rows' times sum to total_ns, unless rows were left out.
struct KernelReport {
  std::uint64_t total_ns = 0, untraced_ns = 0;
  std::vector<KernelRow> rows;    // the largest first
  std::size_t rows_left_out = 0;  // by --top
};

}  // namespace trapline
