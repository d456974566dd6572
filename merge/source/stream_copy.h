// A command reads its recordings several times, by position. What comes once and has no positions
// is therefore kept in a temporary file:
//
//   -                    the standard input
//   /dev/fd/63, a FIFO   what `<(perf script)` of a shell stands for
//   …/tracing/trace      files of tracefs: their size is 0 until they are read
#pragma once

#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// A file without a name, for what memory is not to hold: in TMPDIR, else in /var/tmp.

// For messages: where room is needed.
[[nodiscard]] const char* temporary_folder();
// Not valid, and errno, where it cannot be made.
[[nodiscard]] UniqueFd make_temporary_file();

// A file of that name is ./-.
inline constexpr std::string_view kStandardInput = "-";

// The name of a file that has the bytes of `path` and can be read by position: `path` itself, or
// that of its copy, which is made once, read to its end, and stays as long as this process does.
// Errors: nothing came; no room for a copy; trace_pipe, which has no end.
[[nodiscard]] Result<std::string> readable_path(const std::string& path);

}  // namespace trapline
