// What --kernel-samples reports: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/kernel_samples.h"
#include "merge/report/top_rows.h"

namespace trapline {

// A time by samples, and the 95 % confidence interval of it.
struct SampledTime {
  std::uint64_t samples = 0, ns = 0;
  std::optional<std::uint64_t> low_ns, high_ns;  // nothing: no samples tell
};
// `part` of `all`, which stand for `whole_ns`: Wilson's score interval of its share, by Kish's
// effective number of samples, which is their number where all weigh the same. Where `all` do not
// stand for `unseen_ns` of it, the low end takes that for other code's, the high end for as much
// this part's as the rest.
[[nodiscard]] SampledTime sampled_time(const SampleSum& part, const SampleSum& all,
                                       std::uint64_t whole_ns, std::uint64_t unseen_ns = 0);

// A function in the exits of one reason; and a row of its exits' time for which there are no
// samples: of threads, or times, that were not sampled, with interrupts off, or all of it.
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
