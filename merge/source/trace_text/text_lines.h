// Reads the lines of a text file, a block at a time. A line longer than `longest` is returned in
// pieces, each but the last longer than that.
#pragma once

#include <cstdint>
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
//   trace-cmd report -l  qemu-sys-101     0d..1.     6.792201: kvm_exit:   reason HLT rip 0x…
//
//   line  = quote* [prefix] task ["(" tgid ")"] "[" cpu "]" [flags] time ":" [event ":"] text
//   task  = comm "-" tid | comm " " tid | comm " " pid "/" tid
//   time  = seconds "." 1 to 9 digits | nanoseconds or cycles
//   quote = ">" of a mail, with blanks
//
// Task, CPU and time may be missing where no line of the text has them (TextForm).
//
// A loss is a line of its own: "CPU:3 [LOST 123 EVENTS]" of the kernel, "CPU:3 [123 EVENTS
// DROPPED]" of trace-cmd, both without a number where it is not known; and "##### CPU 3 buffer
// started ####" where a CPU's first events were overwritten.

// Limit for a line's length in bytes; no line of a trace is longer.
inline constexpr std::size_t kLongestTraceLine = 8U << 10;

// The greatest length of the kernel's names of threads, in bytes.
inline constexpr std::size_t kMostOfComm = 15;

// Returns the unit of whole-number times, "ns" or "cycles", from a line that names ftrace's clock:
// "# clock: boot", "trace_clock: local global [mono]". Empty: the line names no clock with a known
// unit.
[[nodiscard]] std::string_view unit_of_clock_line(std::string_view line);
// Returns how many CPUs a heading says that the machine has ("cpus=4" of trace-cmd, "#P:4" of
// tracefs); 0: it says nothing of that.
[[nodiscard]] std::uint32_t cpus_of_heading(std::string_view line);

// The form that all lines of one text share. People, mailers and pagers change it.
struct TextForm {
  enum class Prefix : std::uint8_t {
    kNone,
    kLabel,      // "host.dat: " and buffer names, from trace-cmd
    kKernelLog,  // "[   12.345678] "
    kDate,       // "2026-11-28 01:02:03.456 ", "2026-11-28T01:02:03Z "
    kSyslog,     // "Nov 28 01:02:03 host program[12]: "
    kNumber,     // "12:" and "FILE:12:" from grep, "12<TAB>" from cat -n
    kBullet,     // "* ", "| ", "+", "- "
    kName        // "jd> "
  };
  static constexpr std::size_t kPrefixes = 8;
  Prefix prefix = Prefix::kNone;
  bool loose = false;       // task and CPU may be missing
  bool timeless = false;    // times may be missing too
  bool learns = false;      // the form is not known yet
  bool folded = false;      // lines are wrapped within words
  std::size_t wrapped = 0;  // width of the widest wrapped line; 0: none
  std::size_t cut = 0;      // width at which long lines of events were cut; 0: none
};

struct TextLine {
  enum class Kind : std::uint8_t {
    kOther,    // not part of a trace
    kHeading,  // part of a trace without an event: a comment, "cpus=4", an empty line
    kEvent,
    kLoss
  };
  Kind kind = Kind::kOther;
  std::uint32_t cpu = 0;
  std::uint64_t count = 0;  // kLoss: 0 if the line has no number
  bool is_begin = false;    // kLoss: all of the CPU's events before it were lost

  // The following are set for kEvent.
  std::uint64_t at = 0;     // ns, or cycles
  std::uint8_t digits = 0;  // of the fraction; 0: the time is a whole number of ns or cycles
  char level = 0;           // the flags' third column: '.', 'h', 's', 'H'; 0 without flags
  bool has_cpu = true, has_thread = true, has_time = true;
  bool is_cut = false;  // the last word may be incomplete
  std::int32_t thread = 0;
  std::string_view comm;
  std::string_view label;  // of Prefix::kLabel
  std::string_view name;   // "kvm_exit", "kvm:kvm_exit", "tracing_mark_write"; may be empty
  std::string_view text;   // without blanks around it
};

// Parses `line`, which has no line end. The views point into it.
[[nodiscard]] TextLine parse_text_line(std::string_view line, const TextForm& form = {});

// Returns the line without surrounding blanks and without the ">" of a mail.
[[nodiscard]] std::string_view unquoted(std::string_view line);
// Returns the size in bytes of a prefix of this kind; 0 if the line has none.
[[nodiscard]] std::size_t prefix_size(TextForm::Prefix prefix, std::string_view line);
// Returns whether the line has an event's task and CPU but no time, because the rest was wrapped.
[[nodiscard]] bool begins_event(std::string_view line, const TextForm& form);

class TextLines {
 public:
  // Borrows `file`. From an offset within a line, reading begins with the next line.
  explicit TextLines(const File& file, std::uint64_t from = 0,
                     std::size_t longest = kLongestTraceLine);

  // Returns the next line in `line`; false at the end. The view is valid until the next call.
  [[nodiscard]] bool next(std::string_view& line);
  // Returns whether the line that next() returned last had a line end.
  [[nodiscard]] bool is_whole() const { return whole_; }
  // Continues with the line that begins at this offset.
  void seek(std::uint64_t offset);
  // Returns the offset in the file of the line that next() returned last.
  [[nodiscard]] std::uint64_t line_offset() const { return begin_ + last_; }
  // Returns the offset in the file after the line that next() returned last.
  [[nodiscard]] std::uint64_t offset() const { return begin_ + at_; }
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  bool fill();

  const File* file_;
  std::size_t longest_;
  bool whole_ = false;
  std::string block_;
  std::uint64_t begin_;   // file offset of the block
  std::size_t at_ = 0;    // offset in the block
  std::size_t last_ = 0;  // offset of the last line in the block
  Result<void> status_;
};

}  // namespace trapline::trace_text
