#include "merge/record/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "backend_ftrace/base/descriptors.h"
#include "merge/record/ftrace_control.h"

namespace trapline::record {
namespace {

constexpr unsigned kTries = 200;  // 10 ms apart: the maker's files are closed one after the other

void take_away(const std::string& tracefs, const std::string& name) {
  const auto instance = FtraceControl::open(tracefs, name);
  if (!instance) return;
  (void)instance->switch_off();
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (instance->remove() != EBUSY) return;
    ::usleep(10'000);
  }
  // The command holds its marker: the next start removes it.
  (void)instance->set_buffer_kb(FtraceControl::kLeastBufferKb);
}

int watch(const std::string& tracefs, const std::string& name, int pipe) {
  (void)::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  (void)::prctl(PR_SET_NAME, "trapline-guard");
  (void)!::chdir("/");
  if (::dup2(pipe, 0) < 0) return 1;
  close_all_from(1);
  pollfd maker{0, 0, 0};  // no reader is an error, which is always told
  while (::poll(&maker, 1, -1) < 0 && errno == EINTR) continue;
  take_away(tracefs, name);
  return 0;
}

}  // namespace

Result<Child> start_watchdog(const std::string& tracefs, const std::string& name) {
  return Child::start([&](UniqueFd& pipe) { return watch(tracefs, name, pipe.get()); });
}

}  // namespace trapline::record
