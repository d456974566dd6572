// The tail of a version 6 trace.dat, which is known only when the recording ends: names of threads,
// the number of CPUs, the options, and where each CPU's pages are (trace-cmd.dat.v6(5);
// merge/record/trace_dat_writer.h has the head).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::trace_dat {

constexpr std::uint32_t kMostCpus = 8192;

// Option ids of trace-cmd.dat.v6(5) up to trace-cmd 3.2; they are also the ids of version 7's
// sections.
enum Option : std::uint16_t {
  kDone = 0,
  kDate = 1,
  kCpuStat = 2,
  kBuffer = 3,
  kTraceClock = 4,
  kUname = 5,
  kHook = 6,
  kOffset = 7,
  kCpuCount = 8,
  kVersion = 9,
  kProcMaps = 10,
  kTraceId = 11,
  kTimeShift = 12,
  kGuest = 13,
  kTsc2Nsec = 14,
  kStrings = 15,
  kHeaderInfo = 16,
  kFtraceEvents = 17,
  kEventFormats = 18,
  kKallsyms = 19,
  kPrintk = 20,
  kCmdlines = 21,
  kBufferText = 22,
  kTraplineLoss = 0x8001,  // trace-cmd skips options that it does not know
};
inline constexpr std::string_view kTraplineLossName{"TRAPLINE_LOSS\0", 14};

// The text in the option VERSION of trapline's own recordings, which trace-cmd prints. Tells which
// thread switches were left out:
//
//   trapline 0.1.0, process 230                        switches among its threads are left out
//   trapline 0.1.0, process 230, threads of 131 alone  only those of process 131 are recorded
struct RecorderText {
  std::string program;                     // "trapline 0.1.0"
  std::int32_t process = 0, selected = 0;  // process ids; 0: none

  [[nodiscard]] std::string text() const;
  // Parses the text of the option VERSION; from other recorders' texts, sets only `program`.
  [[nodiscard]] static RecorderText parse(std::string_view text);
};

// Returns the number after "KEY: " in a CPU's stats; 0 if the key is not there.
[[nodiscard]] std::uint64_t stat_number(std::string_view stats, std::string_view key);
// Keys of the recorder's lines in a CPU's stats. Each line becomes an option TRAPLINE_LOSS.
inline constexpr std::string_view kPagesUnwritten = "pages not written",
                                  kEventsUnread = "events not read",
                                  kEventsTaken = "events read by others";

// A part of a file.
struct Run {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  auto operator<=>(const Run&) const = default;
};

struct Tail {
  std::string bytes;       // padded with zeros up to the first area
  std::vector<Run> areas;  // where each CPU's pages are
};

struct StartFacts;
// Makes the tail that follows the head of a recording that began with `start`. `names`: one "TID
// COMM\n" each; `cpu_stats`: one text for each CPU, per_cpu/cpuN/stats, followed by lines of the
// recorder; `sizes`: the bytes of each CPU's pages.
[[nodiscard]] Tail trace_dat_tail(const StartFacts& start, const std::string& names,
                                  const std::vector<std::string>& cpu_stats,
                                  const std::vector<std::uint64_t>& sizes);

}  // namespace trapline::trace_dat
