#include "backend_ftrace/base/descriptors.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace trapline {
namespace {

std::optional<rlimit>& limits_before() {
  static std::optional<rlimit> limits;
  return limits;
}

}  // namespace

void allow_open_files(std::size_t wanted) {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= wanted) return;
  if (!limits_before()) limits_before() = now;
  rlimit more{wanted, std::max<rlim_t>(wanted, now.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &more) == 0) return;
  more = {now.rlim_max, now.rlim_max};
  (void)::setrlimit(RLIMIT_NOFILE, &more);
}

void restore_open_files() {
  if (limits_before()) (void)::setrlimit(RLIMIT_NOFILE, &*limits_before());
}

void close_all_from(int first) {
#if defined(SYS_close_range)
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
#endif
  rlimit files{};  // for Linux before 5.9, which has no close_range(2)
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const auto end = static_cast<int>(std::min<rlim_t>(files.rlim_cur, 65536));
  for (int fd = first; fd < end; ++fd) ::close(fd);
}

}  // namespace trapline
