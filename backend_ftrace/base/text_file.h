// Small files, whole: control files of tracefs, /proc, the parts of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::size_t kMostText = 64u << 20;
inline constexpr std::size_t kMostJson = 16u << 20;

// Of a recording's files only regular ones are taken, and nothing waits: they may be somebody
// else's. What the user names may be a pipe.
enum class TextFrom : std::uint8_t { kFile, kAnything };

// The one way in which a file is read whole. Errors: not there, not a regular file (a FIFO, a
// device), longer than `most` (kDamaged).
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::size_t most = kMostText,
                                            TextFrom from = TextFrom::kFile);

// What is left of an open file.
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& path,
                                           std::size_t most = kMostText);

// One write(2), as control files want it.
[[nodiscard]] Result<void> write_text(const std::string& path, std::string_view text,
                                      bool append = false);

// Replaces the file that the user named as a whole: a reader, or a kill, finds the old one or the
// new one. Mode and group stay, and so does a link, if only its user or root can have put it there.
// Errors: what is there is no file (kUsage), is somebody else's in a folder that is not his (in his
// own it stays his), or a link that others can change.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

// Why a write failed, by its errno; with what to do where it is this process's limit of file sizes.
[[nodiscard]] std::string why_not_written(int cause);

// Writes all of it at the descriptor's position.
[[nodiscard]] Result<void> write_all(int fd, std::string_view bytes, const std::string& path);

}  // namespace trapline
