// Tests on paths. A path whose status cannot be read counts as nonexistent.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "backend_ftrace/base/held_files.h"

namespace trapline {

[[nodiscard]] inline bool is_there(const std::filesystem::path& path) {
  return status_of(path).has_value();
}
[[nodiscard]] inline bool is_folder(const std::filesystem::path& path) {
  const auto status = status_of(path);
  return status && S_ISDIR(status->st_mode);
}
[[nodiscard]] inline bool is_file(const std::filesystem::path& path) {
  const auto status = status_of(path);
  return status && S_ISREG(status->st_mode);
}

// Resolves links and dots; returns the path unchanged if it cannot be resolved.
[[nodiscard]] inline std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace trapline
