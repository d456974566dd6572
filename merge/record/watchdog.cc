#include "merge/record/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "backend_ftrace/base/descriptors.h"
#include "merge/record/ftrace_control.h"

namespace trapline::record {
namespace {

// The maker's files are closed one after the other; a command that outlives it holds its marker.
constexpr unsigned kQuickTries = 200, kAllTries = kQuickTries + 3600;  // 10 ms, then 1 s apart
constexpr unsigned kShrinkAt = 10;

// Of its folder: an instance of the same name that somebody makes later has another one.
ino_t number_of(const FtraceControl& instance) {
  struct stat status {};
  return ::stat(instance.path("").c_str(), &status) == 0 ? status.st_ino : 0;
}

void take_away(const std::string& tracefs, const std::string& name) {
  const auto instance = FtraceControl::open(tracefs, name);
  if (!instance) return;
  (void)instance->switch_off();
  const ino_t number = number_of(*instance);
  for (unsigned tries = 0; tries < kAllTries; ++tries) {
    if (number_of(*instance) != number || instance->remove() != EBUSY) return;
    if (tries == kShrinkAt) (void)instance->set_buffer_kb(FtraceControl::kLeastBufferKb);
    (void)::poll(nullptr, 0, tries < kQuickTries ? 10 : 1000);
  }
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
