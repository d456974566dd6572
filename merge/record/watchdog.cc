#include "merge/record/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/instance.h"

namespace trapline::record {
namespace {

constexpr unsigned kTries = 200;  // 10 ms apart: the maker's files are closed one after the other

void take_away(const std::string& folder) {
  switch_off_instance(folder);
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (::rmdir(folder.c_str()) == 0 || errno != EBUSY) return;
    ::usleep(10'000);
  }
  shrink_instance(folder);  // the command holds its marker: the next start removes it
}

int watch(const std::string& folder, int pipe) {
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
  take_away(folder);
  return 0;
}

}  // namespace

Result<Child> start_watchdog(const std::string& folder) {
  return Child::start([&](UniqueFd& pipe) { return watch(folder, pipe.get()); });
}

void switch_off_instance(const std::string& folder) {
  (void)write_text(folder + "/" + Instance::kCopyMarker, "0");
  (void)write_text(folder + "/tracing_on", "0");
}

void shrink_instance(const std::string& folder) {
  (void)write_text(folder + "/buffer_size_kb", "8");
}

}  // namespace trapline::record
