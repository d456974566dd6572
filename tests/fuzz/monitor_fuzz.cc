// Both ends of the event control: the monitor's commands in a program with events, and the client
// with answers that are no monitor's or QEMU's. The first byte chooses.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/client.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"
#include "trapline/events.h"

namespace {

using namespace trapline;

void register_events() {
  static std::uint32_t states[3];
  static trapline_event events[] = {{"serial_write", "ii", &states[0], 0},
                                    {"serial_read", "is", &states[1], 0},
                                    {"disk", "", &states[2], 0}};
  static trapline_event_group group = {"fuzz", events, 3, TRAPLINE_BACKEND_SIMPLE, nullptr};
  static const bool done = (trapline_events_register(&group), true);
  (void)done;
}

void command(std::string_view input) {
  static const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  register_events();
  while (!input.empty()) {
    const std::string line(take_line(input));
    // It would write where the input says.
    if (line.find("trace-file") != std::string::npos &&
        (line.find("set") != std::string::npos || line.find("on") != std::string::npos)) {
      continue;
    }
    trapline_monitor_command(line.c_str(), nowhere.get());
  }
}

// Accepts one client at a time, tells it what it is to be told and hangs up.
class Answers {
 public:
  Answers()
      : path_(folder_.path() + "/socket"),
        listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    fuzz::hold(
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
            ::listen(listener_.get(), 4) == 0,
        "no socket to listen on");
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::jthread give(std::string_view text) const {
    return std::jthread([this, text] {
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      for (std::string_view left = text; !left.empty();) {
        const ssize_t sent = ::send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        left.remove_prefix(static_cast<std::size_t>(sent));
      }
      // What the client says is read up to its end, or its next words would break the connection.
      ::shutdown(client.get(), SHUT_WR);
      char bytes[4096];
      while (::recv(client.get(), bytes, sizeof bytes, 0) > 0) {
      }
    });
  }

 private:
  fuzz::MemoryFolder folder_;
  std::string path_;
  UniqueFd listener_;
};

void ask(bool qmp, std::string_view input) {
  static const Answers answers;
  const auto server = answers.give(input);
  const auto control = qmp ? connect_qmp(answers.path()) : connect_monitor(answers.path());
  if (!control) return;
  (void)(*control)->list("serial*");
  (void)(*control)->set("serial_write", true);
  (void)(*control)->trace_file("status");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input = fuzz::text_of(data, size).substr(1);
  fuzz::bounded(size, [&] { data[0] % 4 == 0 ? command(input) : ask(data[0] % 2 == 0, input); });
  return 0;
}
