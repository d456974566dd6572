// trapline-worker: parses foreign bytes for trapline and its QEMU plugin, confined. They start it;
// backend_ftrace/base/worker_message.h has what they say to each other.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
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

[[noreturn]] void serve(const Task& task, std::uint32_t status) {
  for (;;) {
    Request request = next_request();
    if (request.kind != MessageKind::kStatus) {
      task.answer(std::move(request));
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
  const std::string_view name = argc == 4 ? argv[1] : "";
  for (const Task& task : kTasks) {
    if (task.name != name || !is_socket(0)) continue;
    std::set_new_handler([] { ::_exit(trapline::kNoMemoryStatus); });
    serve(task, confine(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10)));
  }
  std::fputs("trapline-worker is started by trapline and by its QEMU plugin\n", stderr);
  return kUsage;
}
