// Small files, whole: control files of tracefs, /proc, the parts of a session.
#pragma once

#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

[[nodiscard]] Result<std::string> read_text(const std::string& path);

// What is left of an open file.
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& path);

// One write(2), as control files want it.
[[nodiscard]] Result<void> write_text(const std::string& path, std::string_view text,
                                      bool append = false);

// Replaces the file as a whole (folder.h): a reader, or a kill, finds the old one or the new one.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

// Writes all of it at the descriptor's position.
[[nodiscard]] Result<void> write_all(int fd, std::string_view bytes, const std::string& path);

}  // namespace trapline
