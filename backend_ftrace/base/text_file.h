// Reads and writes small files as a whole: control files of tracefs, /proc, the parts of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::size_t kMostText = 64u << 20;
inline constexpr std::size_t kMostJson = 16u << 20;

// kFile accepts only regular files and never blocks: files of a recording may come from somebody
// else. kAnything also accepts a pipe that the user names.
enum class TextFrom : std::uint8_t { kFile, kAnything };

// Reads a whole file. Errors: the file does not exist, is not regular (a FIFO, a device), or is
// longer than `most` bytes (kDamaged).
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::size_t most = kMostText,
                                            TextFrom from = TextFrom::kFile);

// Reads the rest of an open file. Errors as for read_text().
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& path,
                                           std::size_t most = kMostText);

// Replaces a whole file that the user named: a reader, or a kill in between, finds either the old
// file or the new one. The file keeps its mode and group. A link is followed, and stays, if only
// its user or root can have put it there. Errors: the path is not a file (kUsage), the file belongs
// to another user and its folder does not (in a folder of that user's the file stays his), or a
// link is one that others can change.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

// Explains the errno of a failed write. If this process's limit of file sizes caused the failure,
// the text says how to raise the limit.
[[nodiscard]] std::string why_not_written(int cause);

// Writes all bytes at the offset `at`, by default at the descriptor's position. Returns 0, or the
// errno of a failed write; ENOSPC for a file that takes no more.
[[nodiscard]] int write_bytes(int fd, std::string_view bytes, std::optional<std::uint64_t> at = {});
// Does the same at the current position, and names `path` in the Error.
[[nodiscard]] Result<void> write_all(int fd, std::string_view bytes, const std::string& path);

}  // namespace trapline
