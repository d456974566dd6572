// The parts of a version 6 trace.dat around its pages, as trace-cmd.dat.v6(5) lays them out:
//
//   head   magic "6\0" endian long_size page_size | header_page header_event | ftrace formats |
//          event formats by system | kallsyms | printk formats           known at the start
//   tail   cmdlines | CPU count | "options  \0" … | "flyrecord\0" {u64 offset, u64 size} per CPU
//   pages  of CPU 0, of CPU 1, …, each area beginning on a page                 known at the end
//
// Our instance's pages become the file's top-level buffer, which every reader opens first.
// libtracecmd 1.3 (Debian 12) has no public function that writes such a file. `trace-cmd restore`
// makes the same file from the same pages, and a test compares the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/instance.h"

namespace trapline::record {

// The path of an event in tracefs: events/SYSTEM/NAME.
struct EventName {
  std::string system;
  std::string name;
  auto operator<=>(const EventName&) const = default;
  [[nodiscard]] std::string full_name() const { return system + ":" + name; }
};

// Chooses which kernel symbols trace.dat gets. Reading all of /proc/kallsyms takes most of a short
// recording's CPU time.
enum class TextSymbols : std::uint8_t {
  kAll,  // all, if functions or stacks are recorded
  // All if the format of one of the events prints a symbol (%ps); otherwise up to the function that
  // markers name, so that readers print later addresses as numbers.
  kPrinted,
};

// Returns trace.dat's head for these events (sorted), with the kernel's text symbols.
[[nodiscard]] Result<std::string> trace_dat_head(const std::string& tracefs,
                                                 const std::vector<EventName>& events,
                                                 std::size_t page_size, TextSymbols symbols);

// Appends the text symbols among the lines of /proc/kallsyms, all or those for markers; none if the
// kernel hides addresses (kptr_restrict).
void append_text_symbols(std::istream& lines, bool all, std::string& out);

}  // namespace trapline::record
