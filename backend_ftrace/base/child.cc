#include "backend_ftrace/base/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trapline {

Result<Child> Child::start(const std::function<int(UniqueFd& output)>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail("pipe: {}", std::strerror(errno));
  UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail("fork: {}", std::strerror(errno));
  if (pid == 0) {
    out.reset();
    ::_exit(work(in));
  }
  return Child(pid, std::move(out));
}

Child::~Child() {
  if (pid_ < 0 || status_ || released_) return;
  (void)::kill(pid_, SIGKILL);
  (void)reap_now(true);
}

std::optional<int> Child::reap_now(bool block) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended == pid_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (ended < 0 && errno == ECHILD) status_ = -1;
  return status_;
}

}  // namespace trapline
