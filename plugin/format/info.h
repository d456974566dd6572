// The info file of a uftrace data directory: a 40-byte header and text lines in the order of the
// info mask's bits. docs/formats/uftrace.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct UftraceInfo {
  std::uint64_t features = 0;
  std::uint64_t info_mask = 0;  // as read; the writer derives the mask from the fields below
  unsigned max_stack = 65535;
  std::string exename;
  std::string build_id;
  std::string cmdline;
  std::string cpu_description;
  unsigned cpus = 1;
  std::string kernel, hostname, distro;
  std::vector<std::uint32_t> tids;
  std::string record_date;
  std::string elapsed_time;
  std::string version;
  // Which arguments and return values were recorded. `argspecs`, `retspecs`: as the user chose;
  // `argauto`, `retauto`: of well-known functions, for a function that is in neither.
  std::vector<std::string> argspecs, retspecs;
  std::string argauto, retauto;
  std::string pattern_type;  // of the names in the specs: regex, glob, simple
};

inline constexpr std::uint64_t kFeatureTaskSession = 1U << 1;
inline constexpr std::uint64_t kFeatureRelativeSymbols = 1U << 5;
inline constexpr std::uint64_t kFeatureMaxStack = 1U << 6;
inline constexpr std::uint64_t kOurFeatures =
    kFeatureTaskSession | kFeatureRelativeSymbols | kFeatureMaxStack;

// Formats the whole file. Line breaks inside a value become blanks.
[[nodiscard]] std::string format_info(const UftraceInfo& info);

// Parses a file; `path` is for messages. Accepts only little-endian 64-bit files of versions 3 and
// 4; skips unknown lines.
[[nodiscard]] Result<UftraceInfo> parse_info(std::string_view file, const std::string& path);

}  // namespace trapline
