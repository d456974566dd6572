#include "backend_ftrace/tracefs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace trapline::tracefs {
namespace {

bool has_marker(const char* root) {
  char file[kMaxPath + 16];
  std::snprintf(file, sizeof file, "%s/trace_marker", root);
  struct stat status {};
  // A file that we may not look at counts as found: opening it reports the true reason.
  return ::stat(file, &status) == 0 || errno == EACCES;
}

// Decodes the octal escapes that the mount table uses in paths, \040 for a blank.
void unescape(char* text) {
  char* to = text;
  for (const char* from = text; *from != '\0';) {
    if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
        from[3] >= '0' && from[3] <= '7') {
      *to++ = static_cast<char>((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
      from += 4;
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

bool find_mounted(char (&path)[kMaxPath], const char* mount_table, const char* type,
                  const char* suffix) {
  std::FILE* table = std::fopen(mount_table, "re");
  if (table == nullptr) return false;
  char line[4096];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, table) != nullptr) {
    char* save = nullptr;
    ::strtok_r(line, " ", &save);
    char* where = ::strtok_r(nullptr, " ", &save);
    const char* kind = ::strtok_r(nullptr, " ", &save);
    if (where == nullptr || kind == nullptr || std::strcmp(kind, type) != 0) continue;
    unescape(where);
    const int size = std::snprintf(path, sizeof path, "%s%s", where, suffix);
    found = size > 0 && static_cast<std::size_t>(size) < sizeof path && has_marker(path);
  }
  std::fclose(table);
  return found;
}

void explain(int cause, const char* root, const char* instance, const char* file, char* error,
             std::size_t error_size) {
  const bool in_instance = instance != nullptr && instance[0] != '\0';
  char folder[kMaxPath * 2];
  std::snprintf(folder, sizeof folder, "%s%s%s", root, in_instance ? "/instances/" : "",
                in_instance ? instance : "");
  struct stat status {};
  if (cause == EACCES || cause == EPERM) {
    std::snprintf(error, error_size,
                  "%s/%s: not permitted; open it as root before dropping privileges, or as root: "
                  "chmod o+x %s && chgrp GROUP %s/%s && chmod g+w %s/%s",
                  folder, file, root, folder, file, folder, file);
  } else if (cause == ENOENT && in_instance && ::stat(folder, &status) != 0) {
    std::snprintf(error, error_size, "%s: no such instance; create it as root: mkdir %s", folder,
                  folder);
  } else if (cause == ENOENT) {
    std::snprintf(error, error_size,
                  "%s/%s: not there; if tracefs is not mounted: mount -t tracefs nodev %s", folder,
                  file, root);
  } else {
    std::snprintf(error, error_size, "%s/%s: %s", folder, file, std::strerror(cause));
  }
}

}  // namespace

bool find(char (&path)[kMaxPath], const char* preferred, const char* mount_table) {
  if (has_marker(preferred)) {
    const int size = std::snprintf(path, sizeof path, "%s", preferred);
    return size > 0 && static_cast<std::size_t>(size) < sizeof path;
  }
  return find_mounted(path, mount_table, "tracefs", "") ||
         find_mounted(path, mount_table, "debugfs", "/tracing");
}

int open_file(const char* root, const char* instance, const char* file, int flags, char* error,
              std::size_t error_size) {
  char scratch[1];
  if (error == nullptr || error_size == 0) error = scratch, error_size = sizeof scratch;
  error[0] = '\0';
  char found[kMaxPath];
  if (root == nullptr || root[0] == '\0') {
    if (!find(found)) {
      std::snprintf(error, error_size,
                    "tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing");
      errno = ENOENT;
      return -1;
    }
    root = found;
  }
  const bool in_instance = instance != nullptr && instance[0] != '\0';
  if (in_instance && (std::strchr(instance, '/') != nullptr || instance[0] == '.')) {
    std::snprintf(error, error_size, "'%s' is not an instance name; give a name without '/'",
                  instance);
    errno = EINVAL;
    return -1;
  }
  char path[kMaxPath * 2];
  const int size =
      std::snprintf(path, sizeof path, "%s%s%s/%s", root, in_instance ? "/instances/" : "",
                    in_instance ? instance : "", file);
  if (size < 0 || static_cast<std::size_t>(size) >= sizeof path) {
    std::snprintf(error, error_size, "the path of the instance is too long");
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = ::open(path, flags | O_CLOEXEC);
  if (fd < 0) {
    const int cause = errno;
    explain(cause, root, instance, file, error, error_size);
    errno = cause;
  }
  return fd;
}

}  // namespace trapline::tracefs
