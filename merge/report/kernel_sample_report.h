// What --kernel-samples reports: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "merge/analyze/kernel_samples.h"
#include "merge/report/top_rows.h"

namespace trapline {

// A time by samples, and the 95 % confidence interval of it.
struct SampledTime {
  std::uint64_t samples = 0, ns = 0, low_ns = 0, high_ns = 0;
};
// `samples` of all `of`, which stand for `whole_ns`: Wilson's score interval of their share.
[[nodiscard]] SampledTime sampled_time(std::uint64_t samples, std::uint64_t of,
                                       std::uint64_t whole_ns);

// A function in the exits of one reason; and a row of its exits' time for which there are no samples:
// of threads that were not sampled, or all of it.
struct KernelSampleRow {
  std::string reason, function;
  SampledTime own, total;  // in the function itself; with what it called
};

// The rows' own times sum to total_ns but for rounding, unless rows were left out.
struct KernelSampleReport {
  std::uint64_t total_ns = 0, not_sampled_ns = 0;  // of such rows
  std::uint64_t samples = 0;                       // that the rows are of
  SampleCounters counters;
  std::uint64_t lost = 0, throttled = 0;
  bool by_timer = false;
  std::vector<KernelSampleRow> rows;  // the largest first
  std::size_t rows_left_out = 0;      // by --top
};

}  // namespace trapline
