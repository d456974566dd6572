// The second oracle of the fuzz targets: what an input costs. Whatever is in n bytes, CPU time in
// proportion to n log n must do.
#pragma once

#include <time.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace trapline::fuzz {

// Sanitizers and counted branches make a target some ten times slower than the command, which may
// take 5 s for 1 MB; so these are generous, and what is more than n log n still exceeds them.
inline constexpr double kBaseNs = 50e6, kNsForByte = 500;

[[nodiscard]] inline double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Runs it once; three times where the first took too long, since a machine has other work, too. The
// least counts.
template <typename Run>
void bounded(std::size_t bytes, Run&& run) {
  const auto n = static_cast<double>(bytes);
  const double limit = kBaseNs + kNsForByte * n * std::log2(n + 2);
  double took = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double begin = cpu_ns();
    run();
    took = cpu_ns() - begin;
    if (took <= limit) return;
  }
  std::fprintf(stderr, "ERROR: %zu bytes took %.0f ms of CPU time, more than %.0f ms\n", bytes,
               took / 1e6, limit / 1e6);
  std::abort();
}

}  // namespace trapline::fuzz
