// sid-<sid>.map of a uftrace data directory: where each binary of a session is mapped, in the form
// of /proc/PID/maps. Addresses are those of the records, 48 bits. docs/formats/uftrace.md.
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
  // Offset of `start` in the file; parse_map() sets it, format_map() writes 0.
  std::uint64_t offset = 0;
};

// Formats the lines and adds the [stack] line that uftrace requires. From its address uftrace
// derives which records are the host kernel's; with the address written here, no 48-bit address is.
[[nodiscard]] std::string format_map(const std::vector<MapLine>& lines);

// Parses a map; also accepts /proc/PID/maps. Leaves out lines without a path and lines like
// [stack].
[[nodiscard]] Result<std::vector<MapLine>> parse_map(std::string_view file,
                                                     const std::string& path);

}  // namespace trapline
