// The parts of a version 6 trace.dat around its pages, as trace-cmd.dat.v6(5) lays them out:
//
//   head   magic "6\0" endian long_size page_size | header_page header_event | ftrace formats |
//          event formats by system | kallsyms | printk formats           known when recording
//          starts
//   tail   cmdlines | CPU count | "options  \0" … | "flyrecord\0" {u64 offset, u64 size} per CPU
//   pages  of CPU 0, of CPU 1, …, each area beginning on a page                 known when it ends
//
// Our instance's pages become the file's top buffer, which every reader opens first. libtracecmd
// 1.3 (Debian 12) has no public call that writes such a file; `trace-cmd restore` makes the same
// one from the same pages, and a test holds the two together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/instance.h"

namespace trapline::record {

// An event's place in tracefs: events/SYSTEM/NAME.
struct EventName {
  std::string system;
  std::string name;
  auto operator<=>(const EventName&) const = default;
};

// The head for these events (sorted); the symbols are the kernel's text symbols.
[[nodiscard]] Result<std::string> trace_dat_head(const std::string& tracefs,
                                                 const std::vector<EventName>& events,
                                                 std::size_t page_size);

}  // namespace trapline::record
