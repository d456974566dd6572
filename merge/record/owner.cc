#include "merge/record/owner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "backend_ftrace/base/text.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const auto number = text == nullptr ? std::nullopt : parse_number(text);
  return number && *number < UINT32_MAX ? number : std::nullopt;
}

void give(const std::string& path, const Owner& owner) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid != 0) return;
  (void)!::lchown(path.c_str(), owner.uid, owner.gid);
}

}  // namespace

std::optional<Owner> invoking_user() {
  if (::geteuid() != 0) return std::nullopt;
  const auto uid = number_in("SUDO_UID"), gid = number_in("SUDO_GID");
  if (!uid || !gid || *uid == 0) return std::nullopt;
  return Owner{static_cast<uid_t>(*uid), static_cast<gid_t>(*gid)};
}

void give_session(const std::string& folder, const Owner& owner) {
  std::error_code error;
  // What is inside goes first: until the folder is given away, nobody else can change it.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    give(entry->path().string(), owner);
  }
  give(folder, owner);
}

void close_to_others(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) || !entry->is_regular_file(ignored)) continue;
    fs::permissions(entry->path(), fs::perms::owner_read | fs::perms::owner_write, ignored);
  }
}

}  // namespace trapline::record
