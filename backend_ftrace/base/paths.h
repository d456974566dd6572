// What a path names. A path that cannot be looked at names nothing.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace trapline {

[[nodiscard]] inline bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}
[[nodiscard]] inline bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}
[[nodiscard]] inline bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Without links and dots; what cannot be looked at stays as it is.
[[nodiscard]] inline std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace trapline
