// The tail of a version 6 trace.dat, known when its recording ends: names of threads, the number of
// CPUs, the options, and where each CPU's pages lie (trace-cmd.dat.v6(5); the head is
// merge/record/trace_dat_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::trace_dat {

// What a recording of ours says of its recorder, in the option VERSION, which trace-cmd prints:
//
//   trapline 0.1.0, process 230                        what its threads do among them is left out
//   trapline 0.1.0, process 230, threads of 131 alone  only those of process 131 are recorded
struct RecorderText {
  std::string program;                     // "trapline 0.1.0"
  std::int32_t process = 0, selected = 0;  // 0: none

  [[nodiscard]] std::string text() const;
  // Of another recorder's text nothing but the program.
  [[nodiscard]] static RecorderText parse(std::string_view text);
};

struct TailFacts {
  std::string cmdlines;  // "TID COMM\n" each
  std::string clocks;    // as in trace_clock: "local [mono] …"
  std::string uname;
  std::string version;
  // One text for each CPU, what per_cpu/cpuN/stats says, and lines of the recorder's own.
  std::vector<std::string> cpu_stats;
};
// The number behind "KEY: " in such a text; 0: it is not there.
[[nodiscard]] std::uint64_t stat_number(std::string_view stats, std::string_view key);
// The recorder's lines: "KEY: NUMBER". Each becomes an option TRAPLINE_LOSS.
inline constexpr std::string_view kPagesUnwritten = "pages not written",
                                  kEventsUnread = "events not read",
                                  kEventsTaken = "events read by others";

struct CpuArea {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct Tail {
  std::string bytes;  // filled with zeros up to the first area
  std::vector<CpuArea> areas;
};

// The tail that follows `head_bytes` bytes of head, for CPUs with so many bytes of pages.
[[nodiscard]] Tail trace_dat_tail(const TailFacts& facts, std::uint64_t head_bytes,
                                  std::size_t page_size, const std::vector<std::uint64_t>& sizes);

}  // namespace trapline::trace_dat
