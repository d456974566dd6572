// The lines of a text file, a block at a time. A line that is longer than `longest` comes in
// pieces, each but the last longer than that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "merge/source/file.h"

namespace trapline::trace_text {

// One line of a trace that was printed as text:
//
//   trace-cmd report     qemu-system-x86-101   [000]     6.792201: kvm_exit:   reason HLT rip 0x…
//   trace, trace_pipe    qemu-1234    (   1230) [003] d..1.   12.345678: kvm_exit: vcpu 0 reason …
//   perf script          CPU 0/KVM  1230/1234 [003]    12.345678:  kvm:kvm_exit: vcpu 0 reason …
//
//   line  = quote* [buffer ": "] task ["(" tgid ")"] "[" cpu "]" [flags] time ":" [event ":"] text
//   task  = comm "-" tid | comm " " tid | comm " " pid "/" tid
//   time  = seconds "." 1 to 9 digits | nanoseconds or cycles
//   quote = ">" of a mail, with blanks
//
// A loss is a line of its own: "CPU:3 [LOST 123 EVENTS]" of the kernel, "CPU:3 [123 EVENTS
// DROPPED]" of trace-cmd, both without a number where it is not known; and "##### CPU 3 buffer
// started ####" where a CPU's first events were overwritten.

// A longer line is none of a trace.
inline constexpr std::size_t kLongestTraceLine = 8U << 10;

// What whole numbers are as times, "ns" or "cycles", where the line names ftrace's clock: "# clock:
// boot", "trace_clock: local global [mono]". Empty: the line names no clock whose unit is known.
[[nodiscard]] std::string_view unit_of_clock_line(std::string_view line);

struct TextLine {
  enum class Kind : std::uint8_t {
    kOther,    // not of a trace
    kHeading,  // of a trace, without an event: comments, "cpus=4", an empty line
    kEvent,
    kLoss
  };
  Kind kind = Kind::kOther;
  std::uint32_t cpu = 0;
  std::uint64_t count = 0;  // kLoss: 0 where the line has no number
  bool is_begin = false;    // kLoss: of all of the CPU's events before it

  // kEvent
  std::uint64_t at = 0;     // ns, or cycles
  std::uint8_t digits = 0;  // of the fraction; 0: the time is a whole number, of ns or cycles
  char level = 0;           // the flags' third column: '.', 'h', 's', 'H'; 0 without flags
  std::int32_t thread = 0;
  std::string_view comm;
  std::string_view name;  // "kvm_exit", "kvm:kvm_exit", "tracing_mark_write"; may be empty
  std::string_view text;  // without blanks around it
};

// `line` without its line end. The views point into it.
[[nodiscard]] TextLine parse_text_line(std::string_view line);

class TextLines {
 public:
  // `file` is borrowed. From an offset within a line it begins with the next one.
  explicit TextLines(const File& file, std::uint64_t from = 0,
                     std::size_t longest = kLongestTraceLine);

  // False at the end. The view is valid until the next call.
  [[nodiscard]] bool next(std::string_view& line);
  // Whether the last line had its end.
  [[nodiscard]] bool is_whole() const { return whole_; }
  // The last line is to come again.
  void again() { at_ = last_; }
  // After the last line.
  [[nodiscard]] std::uint64_t offset() const { return begin_ + at_; }
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  bool fill();

  const File* file_;
  std::size_t longest_;
  bool whole_ = false;
  std::string block_;
  std::uint64_t begin_;   // of the block in the file
  std::size_t at_ = 0;    // in the block
  std::size_t last_ = 0;  // of the last line
  Result<void> status_;
};

}  // namespace trapline::trace_text
