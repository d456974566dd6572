// Finds and opens tracefs. Doesn't allocate or use the C++ runtime, so C programs can link it.
#pragma once

#include <cstddef>

namespace trapline::tracefs {

inline constexpr std::size_t kMaxPath = 512;

// Finds a mounted tracefs: `preferred`, else the first tracefs in the mount table that has a
// trace_marker, else tracing/ in debugfs. False when none is mounted.
[[nodiscard]] bool find(char (&path)[kMaxPath], const char* preferred = "/sys/kernel/tracing",
                        const char* mount_table = "/proc/mounts");

// Opens `file` of an instance (nullptr or "": the top level) below `root` (nullptr: find tracefs).
// On failure returns -1 and writes the cause and the fix to `error`.
[[nodiscard]] int open_file(const char* root, const char* instance, const char* file, int flags,
                            char* error, std::size_t error_size);

}  // namespace trapline::tracefs
