// trapline-worker: parses untrusted bytes for trapline and its QEMU plugin, confined. They start
// it; backend_ftrace/base/worker_message.h describes their messages.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "merge/worker/channel.h"
#include "merge/worker/confine.h"

namespace trapline::worker {
namespace {

struct Task {
  std::string_view name;
  void (*answer)(Request&& request);
};
constexpr Task kTasks[] = {{"events", print_events}, {"symbols", read_symbols}};

bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

// Answers the caller's requests. Refuses to parse for root if no seccomp filter but only the limits
// confine the worker, except if `unconfined` is true.
[[noreturn]] void serve(const Task& task, std::uint32_t status, bool unconfined) {
  constexpr auto kFiltered = static_cast<std::uint32_t>(WorkerStatus::kFiltered);
  constexpr auto kRoots = static_cast<std::uint32_t>(WorkerStatus::kRoots);
  const bool refuses = (status & (kFiltered | kRoots)) == kRoots && !unconfined;
  for (;;) {
    Request request = next_request();
    if (request.kind != MessageKind::kStatus) {
      if (refuses) {
        refuse(ErrorKind::kRuntime,
               "is not parsed as root: this kernel, or a container, allows no seccomp filter; read "
               "it as another user, or set TRAPLINE_WORKER_UNCONFINED=1");
      } else {
        task.answer(std::move(request));
      }
      continue;
    }
    MessageWriter bits;
    bits.number(status);
    answer(MessageKind::kStatus, bits.bytes());
  }
}

}  // namespace
}  // namespace trapline::worker

int main(int argc, char** argv) {
  using namespace trapline::worker;
  constexpr int kUsage = 2;
  const std::string_view name = argc == 4 || argc == 5 ? argv[1] : "";
  for (const Task& task : kTasks) {
    if (task.name != name || !is_socket(0)) continue;
    std::set_new_handler([] { ::_exit(trapline::kNoMemoryStatus); });
    serve(task, confine(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10)),
          argc == 5);
  }
  std::fputs("trapline-worker is started by trapline and by its QEMU plugin\n", stderr);
  return kUsage;
}
