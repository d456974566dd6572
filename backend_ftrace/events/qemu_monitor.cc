#include "backend_ftrace/events/qemu_monitor.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/json_answer.h"
#include "backend_ftrace/events/line_socket.h"

namespace trapline {
namespace {

using Json = nlohmann::json;

class QmpSocket final : public QemuMonitor {
 public:
  explicit QmpSocket(LineSocket socket) : socket_(std::move(socket)) {}

  Result<void> greet() {
    auto greeting = socket_.receive();
    if (!greeting) return tl::unexpected(greeting.error());
    if (!parsed_answer(*greeting).contains("QMP")) {
      return fail("{}: no QMP socket; start QEMU with -qmp unix:PATH,server=on,wait=off", name());
    }
    auto ready = execute("qmp_capabilities");
    if (!ready) return tl::unexpected(std::move(ready).error());
    return {};
  }
  const std::string& name() const override { return socket_.path(); }

 protected:
  Result<std::string> exchange(const std::string& line, int file) override {
    if (auto sent = socket_.send(line, file); !sent) return tl::unexpected(sent.error());
    for (;;) {
      auto answer = socket_.receive();
      if (!answer) return answer;
      const Json json = parsed_answer(*answer);
      if (!json.is_object()) return fail("{}: the answer is not a JSON object", name());
      // Else an event of the machine: the answer is still to come.
      if (json.contains("return") || json.contains("error")) return answer;
    }
  }

 private:
  LineSocket socket_;
};

}  // namespace

Result<std::string> QemuMonitor::execute(const std::string& command, const std::string& arguments,
                                         int file) {
  const Json request{{"execute", command}, {"arguments", Json::parse(arguments, nullptr, false)}};
  auto line = exchange(one_line(request), file);
  if (!line) return line;
  const Json answer = parsed_answer(*line);
  if (answer.is_object() && answer.contains("return")) return one_line(answer["return"]);
  const Json error = answer.is_object() ? answer.value("error", Json()) : Json();
  const Json words = error.is_object() ? error.value("desc", Json()) : Json();
  return fail("{}: {}: {}", name(), command,
              words.is_string() ? words.get<std::string>() : "an answer that is none");
}

Result<std::vector<std::string>> QemuMonitor::human(const std::string& command) {
  auto answer = execute("human-monitor-command", one_line({{"command-line", command}}));
  if (!answer) return tl::unexpected(std::move(answer).error());
  const Json printed = Json::parse(*answer, nullptr, false);
  std::vector<std::string> lines;
  const std::string text = printed.is_string() ? printed.get<std::string>() : std::string();
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const auto line = trimmed(std::string_view(text).substr(from, end - from));
    if (!line.empty()) lines.emplace_back(line);
    from = end + 1;
  }
  return lines;
}

Result<QemuMonitor::File> QemuMonitor::add_file(int file) {
  auto answer = execute("add-fd", one_line({{"opaque", "trapline"}}), file);
  if (!answer) return tl::unexpected(std::move(answer).error());
  const Json added = Json::parse(*answer, nullptr, false);
  const auto number = [&added](const char* key) {
    const Json value = added.is_object() ? added.value(key, Json()) : Json();
    return value.is_number_integer() ? value.get<std::int64_t>() : -1;
  };
  const File place{number("fdset-id"), number("fd")};
  if (place.set < 0 || place.fd < 0) return fail("{}: add-fd: an answer that is none", name());
  return place;
}

Result<void> QemuMonitor::remove_file(const File& file) {
  auto removed = execute("remove-fd", one_line({{"fdset-id", file.set}}));
  if (!removed) return tl::unexpected(std::move(removed).error());
  return {};
}

Result<std::unique_ptr<QemuMonitor>> connect_qemu(const std::string& path, pid_t* peer) {
  auto socket = LineSocket::connect(path);
  if (!socket) return tl::unexpected(socket.error());
  if (peer != nullptr) *peer = socket->peer();
  auto qemu = std::make_unique<QmpSocket>(std::move(*socket));
  if (auto greeted = qemu->greet(); !greeted) return tl::unexpected(std::move(greeted).error());
  return qemu;
}

}  // namespace trapline
