#include "merge/cli/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/cli/rights.h"

extern char** environ;

namespace trapline::cli {

Result<std::string> write_temporary(const std::string& text, const std::string& suffix) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/trapline-XXXXXX{}",
                                 folder == nullptr || *folder == '\0' ? "/tmp" : folder, suffix);
  const UniqueFd file(::mkostemps(path.data(), static_cast<int>(suffix.size()), O_CLOEXEC));
  if (file.get() < 0)
    return fail("{}: cannot create a file there: {}; name one with -o", path, std::strerror(errno));
  auto written = write_all(file.get(), text, path + ": cannot be written");
  if (!written) return tl::unexpected(std::move(written).error());
  return path;
}

std::string open_in_browser(const std::string& page) {
  if (::geteuid() == 0) return "root starts no browser";
  std::vector<std::string> kept;
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR",
                           "DBUS_SESSION_BUS_ADDRESS", "XDG_CURRENT_DESKTOP"})
    if (const char* value = std::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr)
    return "there is no desktop to open it on";
  const passwd* user = is_no_longer_root() ? ::getpwuid(::getuid()) : nullptr;
  kept.push_back(fmt::format("HOME={}", user != nullptr ? user->pw_dir : "/"));
  kept.emplace_back("PATH=/usr/local/bin:/usr/bin:/bin");
  std::vector<char*> variables;
  for (std::string& variable : kept) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::string program = "xdg-open", file = page;
  char* const words[] = {program.data(), file.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, words,
                                   is_no_longer_root() ? variables.data() : environ);
  return error == 0 ? std::string() : "there is no desktop to open it on";
}

}  // namespace trapline::cli
