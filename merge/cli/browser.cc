#include "merge/cli/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"

extern char** environ;

namespace trapline::cli {

Result<std::string> write_temporary(const std::string& text) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/trapline-XXXXXX.html",
                                 folder == nullptr || *folder == '\0' ? "/tmp" : folder);
  const UniqueFd file(::mkostemps(path.data(), 5, O_CLOEXEC));
  if (file.get() < 0) {
    return fail("{}: cannot create a file there: {}; name one with -o", path, std::strerror(errno));
  }
  auto written = write_all(file.get(), text, path + ": cannot be written");
  if (!written) return tl::unexpected(std::move(written).error());
  return path;
}

bool open_in_browser(const std::string& path) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return false;
  std::string program = "xdg-open", file = path;
  char* const words[] = {program.data(), file.data(), nullptr};
  pid_t pid = 0;
  return ::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, words, environ) == 0;
}

}  // namespace trapline::cli
