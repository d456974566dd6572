#include "merge/cli/rights.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/landlock.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/worker.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_folder.h"
#include "merge/source/stream_copy.h"

namespace trapline::cli {
namespace {

namespace fs = std::filesystem;

bool given_up = false;

// Returns the folder that an output goes into or, if it doesn't exist, the nearest one above it.
fs::path folder_of(const std::string& output) {
  std::error_code error;
  fs::path folder = fs::absolute(output, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  do folder = folder.parent_path();
  while (!is_there(folder) && folder.has_relative_path());
  return folder;
}

// Returns whether the output is taken for one that is written directly: a device, a pipe, or any
// path in /dev or /proc, where links stand for descriptors.
bool is_special(const std::string& output) {
  const auto status = status_of(output);
  return output.starts_with("/dev/") || output.starts_with("/proc/") ||
         (status && !S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode));
}

// Returns the user's own command, with output redirected to the file by root's shell.
std::string with_redirection(const std::string& output, bool sudo) {
  std::vector<std::string> words = record::command_line_of(::getpid());
  if (words.empty()) return {};
  words.front() = "trapline";
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == output && (words[i - 1] == "-o" || words[i - 1] == "--output")) words[i] = "-";
  std::ranges::replace(words, "--output=" + output, "--output=-");
  const std::string command = shell_text(words) + " > " + shell_text({output});
  return sudo ? "sudo sh -c " + shell_text({command}) : command;
}

Result<void> check_writable(const std::string& output, const std::optional<Identity>& who) {
  if (output.empty() || output == "-" || is_special(output)) return {};
  const fs::path folder = folder_of(output);
  int cause = 0;
  with_later_rights(who, [&] {
    cause = ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
  });
  if (cause == 0) return {};
  return fail("{}: {} may not write there ({}); root's rights are not kept for it: {}", output,
              who ? user_text(who->uid) : "root without its capabilities", std::strerror(cause),
              with_redirection(output, who.has_value()));
}

// Allows a path that the user named. Follows a link only if root alone can have made it.
void allow_named(const std::string& path, Landlock& landlock, bool to_write) {
  const auto status = status_of(path);
  const bool is_opened = status && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode));
  const int how = is_opened ? O_RDONLY | O_NOCTTY | O_CLOEXEC : O_PATH | O_CLOEXEC;
  const UniqueFd file =
      ::geteuid() == 0 ? open_named_as_root(path, how) : UniqueFd(::open(path.c_str(), how));
  if (file) landlock.allow_descriptor(file.get(), to_write);
}

// Allows reading an input. With a folder, or a file in a session's folder, also allows the folder
// and each file in it, since the reader opens those too.
void allow_input(const std::string& path, Landlock& landlock) {
  allow_named(path, landlock, false);
  fs::path folder = is_folder(path) ? fs::path(path) : fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!is_folder(path) && !is_file(folder / "session.json")) return;
  allow_named(folder, landlock, false);
  for (const std::string& name : names_in(folder)) allow_named(folder / name, landlock, false);
}

Landlock restriction_to(const Needs& needs, bool to_named) {
  Landlock landlock(to_named ? Landlock::Reading::kNamed : Landlock::Reading::kAnywhere);
  if (to_named)
    for (const std::string& input : needs.inputs) allow_input(input, landlock);
  for (const std::string& output : needs.outputs) {
    if (output.empty() || output == "-") continue;
    allow_named(folder_of(output), landlock, true);
    allow_named(folder_of(real_path(output)), landlock, true);
  }
  // Allows what every command may need: trapline's worker program and its libraries, the names of
  // users, the time zone.
  landlock.allow_executing(Worker::program());
  for (const char* libraries : {"/lib", "/lib64", "/usr/lib", "/usr/lib64"})
    landlock.allow_executing(libraries);
  const char* const more = ::secure_getenv("LD_LIBRARY_PATH");
  for (const std::string_view folder : split(more != nullptr ? more : "", ':'))
    landlock.allow_reading(std::string(folder));
  for (const char* file : {"/usr", "/proc", "/sys/devices", "/etc/ld.so.cache", "/etc/localtime",
                           "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"})
    landlock.allow_reading(file);
  for (const char* folder : {"/dev", temporary_folder(), needs.browser ? "/tmp" : "/dev"})
    landlock.allow_writing(folder);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    landlock.allow_descriptor(fd, true);
  return landlock;
}

}  // namespace

Result<void> give_up_root(const Needs& needs) {
  if (::geteuid() != 0) return {};
  const auto user = invoking_user();
  for (const std::string& output : needs.outputs)
    if (auto writable = check_writable(output, user); !writable) return writable;
  for (const std::string& input : needs.inputs) hold_file(input, user);
  if (auto given = trapline::give_up_root(user); !given) return given;
  given_up = true;
  // A browser that is started would be restricted too.
  if (!user || !needs.browser) restriction_to(needs, !user).enforce();
  return {};
}

bool is_no_longer_root() { return given_up && ::geteuid() != 0; }

}  // namespace trapline::cli
