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

// Temporary files without a name hold data that memory should not: in TMPDIR, else in /var/tmp.

// Returns the folder of temporary files, for messages that say where room is needed.
[[nodiscard]] const char* temporary_folder();
// Makes a temporary file; if that fails, returns an invalid descriptor and sets errno.
[[nodiscard]] UniqueFd make_temporary_file();

// The path that means standard input; a file called "-" is given as "./-".
inline constexpr std::string_view kStandardInput = "-";

// Opens a file that can be read by position: `path` itself or, for a stream or an encoded file, a
// decoded copy. The copy is made once, of all bytes, and stays as long as this process. Errors: the
// file cannot be opened; an empty stream; trace_pipe, which has no end; those of decoded_copy().
[[nodiscard]] Result<UniqueFd> open_readable(const std::string& path);

// Returns a temporary file with the decoded bytes; an invalid descriptor if `file` is not encoded.
// `path` is for messages. Errors: a compressed stream ends early, is damaged or expands more than a
// thousandfold; an encoded text has more than 64 MiB; there is no room for the temporary file.
[[nodiscard]] Result<UniqueFd> decoded_copy(const std::string& path, int file);

}  // namespace trapline
