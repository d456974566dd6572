// Where tracefs is. No allocation and no C++ library, so that C programs link it.
#pragma once

#include <cstddef>

namespace trapline::tracefs {

inline constexpr std::size_t kMaxPath = 512;

// Finds a mounted tracefs: `preferred`, else the first tracefs in the mount table that has a
// trace_marker, else debugfs with tracing/ in it. False: none is mounted.
[[nodiscard]] bool find(char (&path)[kMaxPath], const char* preferred = "/sys/kernel/tracing",
                        const char* mount_table = "/proc/mounts");

// Opens FILE of an instance (nullptr or "": the top level) below `root` (nullptr: found). On
// failure -1, and the cause and the fix in `error`.
[[nodiscard]] int open_file(const char* root, const char* instance, const char* file, int flags,
                            char* error, std::size_t error_size);

}  // namespace trapline::tracefs
