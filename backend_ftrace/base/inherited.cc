#include "backend_ftrace/base/inherited.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <bitset>
#include <cerrno>

namespace trapline {
namespace {

std::bitset<NSIG>& ignored() {
  static std::bitset<NSIG> signals;
  return signals;
}

}  // namespace

void fill_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest closed number, which is `fd`: all below are open.
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void take_over_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction found {};
    ignored()[static_cast<std::size_t>(number)] =
        ::sigaction(number, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
  }
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);
}

bool is_ignored_by_caller(int signal) { return ignored()[static_cast<std::size_t>(signal)]; }

void restore_signals() {
  for (int number = 1; number < NSIG; ++number) {
    const bool passed_on = number == SIGINT || number == SIGQUIT || number == SIGTERM;
    ::signal(number, is_ignored_by_caller(number) && !passed_on ? SIG_IGN : SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace trapline
