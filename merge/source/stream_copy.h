// Commands read recordings several times, by position. Streams, which can be read only once, are
// therefore copied to a temporary file:
//
//   -                    the standard input
//   /dev/fd/63, a FIFO   made by a shell for `<(perf script)`
//   …/tracing/trace      files of tracefs, whose size is 0 until they are read
#pragma once

#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Files without a name, for data that memory should not hold: in TMPDIR, else in /var/tmp.

// Returns the folder, for messages that say where room is needed.
[[nodiscard]] const char* temporary_folder();
// Returns an invalid descriptor, with errno, if the file cannot be made.
[[nodiscard]] UniqueFd make_temporary_file();

// The name of standard input; a file with this name is ./-.
inline constexpr std::string_view kStandardInput = "-";

// Returns the name of a file that has the bytes of `path` and can be read by position: `path`
// itself, or the name of a copy. The copy is made once, of the whole stream, and stays as long as
// this process. Errors: the stream is empty; no room for a copy; trace_pipe, which has no end.
[[nodiscard]] Result<std::string> readable_path(const std::string& path);

}  // namespace trapline
