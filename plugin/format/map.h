// sid-<sid>.map of a uftrace data directory: where each binary of a session lies, as in
// /proc/PID/maps. Addresses are those of the records, 48 bits. docs/formats/uftrace.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct MapLine {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string protection = "r-xp";
  std::string path;
  std::string build_id;
  std::uint64_t offset = 0;  // of `start` in the file; as read, format_map() writes 0
};

// With the [stack] line that uftrace needs: its address decides which records count as the host
// kernel's, and this one keeps all 48-bit addresses out of there.
[[nodiscard]] std::string format_map(const std::vector<MapLine>& lines);

// Of /proc/PID/maps as well. Lines without a path and those of the kind [stack] are left out.
[[nodiscard]] Result<std::vector<MapLine>> parse_map(std::string_view file,
                                                     const std::string& path);

}  // namespace trapline
