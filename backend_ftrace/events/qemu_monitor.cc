#include "backend_ftrace/events/qemu_monitor.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
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

  const std::string& name() const override { return socket_.path(); }

 protected:
  Result<void> send(const std::string& line, int file) override { return socket_.send(line, file); }
  Result<std::string> receive() override { return socket_.receive(); }
  std::uint64_t next_id() override { return ++asked_; }

 private:
  LineSocket socket_;
  std::uint64_t asked_ = 0;
};

// The human monitor. It echoes each command after its prompt:
//
//   (qemu) …info trace-events x*
//   x_read : state 0                   what the command prints
//   (qemu) …print 7340033              sent after it
//   0x700001                           so it has printed all
//
// If a command timed out, its answer and its number come before the next one's.
class HumanSocket final : public QemuMonitor {
 public:
  explicit HumanSocket(LineSocket socket) : socket_(std::move(socket)) {}

  const std::string& name() const override { return socket_.path(); }

  Result<std::vector<std::string>> human(const std::string& command) override {
    return ask(command, -1);
  }

  // The human monitor does not report the number that the descriptor has in QEMU, so we look for it
  // among QEMU's descriptors.
  Result<File> add_file(int file) override {
    struct stat mine {};
    if (::fstat(file, &mine) != 0) return fail("{}: {}", name(), std::strerror(errno));
    auto printed = ask("getfd trapline", file);
    if (!printed) return tl::unexpected(std::move(printed).error());
    if (!printed->empty()) return fail("{}: getfd: {}", name(), printed->front());
    const std::string folder = "/proc/" + std::to_string(socket_.peer()) + "/fd";
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      struct stat there {};
      const auto number = parse_number(entry.path().filename().string());
      if (number && ::stat(entry.path().c_str(), &there) == 0 && there.st_dev == mine.st_dev &&
          there.st_ino == mine.st_ino)
        return File{0, static_cast<std::int64_t>(*number)};
    }
    (void)remove_file({});
    return fail("{}: {} does not show the descriptor that it was given", name(), folder);
  }
  Result<void> remove_file(const File&) override {
    auto printed = ask("closefd trapline", -1);
    if (!printed) return tl::unexpected(std::move(printed).error());
    return {};
  }

 protected:
  Result<void> send(const std::string&, int) override {
    return fail(
        "{}: the human monitor takes no QMP; start QEMU with -qmp unix:PATH,server=on,wait=off",
        name());
  }
  Result<std::string> receive() override { return socket_.receive(); }

 private:
  static constexpr std::size_t kMostLines = 1u << 16;
  static constexpr std::chrono::seconds kPatience{10};  // for a whole answer

  Result<std::vector<std::string>> ask(const std::string& command, int file) {
    const std::uint64_t mark = 0x700000 + ++asked_;
    if (auto sent = socket_.send(command, file); !sent) return tl::unexpected(sent.error());
    if (auto sent = socket_.send("print " + std::to_string(mark)); !sent)
      return tl::unexpected(sent.error());
    const std::string before = fmt::format("0x{:x}", mark - 1);
    std::vector<std::string> lines;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (const std::string end = fmt::format("0x{:x}", mark);
         lines.size() < kMostLines && std::chrono::steady_clock::now() < deadline;) {
      auto line = socket_.receive();
      if (!line) return tl::unexpected(std::move(line).error());
      const std::string text(trimmed(*line));
      if (text == end && lines.size() >= 2) {  // the echoes of both commands
        lines.pop_back();
        lines.erase(lines.begin());
        std::erase(lines, std::string());
        return lines;
      }
      lines.push_back(text);
      if (text == before) lines.clear();
    }
    return fail("{}: {}: an answer that does not end", name(), command);
  }

  LineSocket socket_;
  std::uint64_t asked_ = 0;
};

}  // namespace

Result<Json> QemuMonitor::execute(const std::string& command, const Json& arguments, int file) {
  Json request{{"execute", command}, {"arguments", arguments}};
  const std::uint64_t id = next_id();
  if (id != 0) request["id"] = id;
  if (auto sent = send(one_line(request), file); !sent)
    return tl::unexpected(std::move(sent).error());
  for (;;) {
    const auto line = receive();
    if (!line) return tl::unexpected(line.error());
    const Json answer = parsed_answer(*line);
    if (!answer.is_object()) return fail("{}: the answer is not a JSON object", name());
    // The late answer to a command that timed out has another id, an event of the machine has none.
    if (id != 0 && answer.value("id", Json()) != id) continue;
    if (answer.contains("return")) return answer["return"];
    // Any other object is an event of the machine; the answer is still to come.
    if (!answer.contains("error")) continue;
    const Json& error = answer["error"];
    const Json words = error.is_object() ? error.value("desc", Json()) : Json();
    return fail("{}: {}: {}", name(), command,
                words.is_string() ? words.get<std::string>() : "an answer that is none");
  }
}

Result<std::vector<std::string>> QemuMonitor::human(const std::string& command) {
  auto answer = execute("human-monitor-command", {{"command-line", command}});
  if (!answer) return tl::unexpected(std::move(answer).error());
  std::vector<std::string> lines;
  const std::string text = answer->is_string() ? answer->get<std::string>() : std::string();
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const auto line = trimmed(std::string_view(text).substr(from, end - from));
    if (!line.empty()) lines.emplace_back(line);
    from = end + 1;
  }
  return lines;
}

Result<QemuMonitor::File> QemuMonitor::add_file(int file) {
  auto answer = execute("add-fd", {{"opaque", "trapline"}}, file);
  if (!answer) return tl::unexpected(std::move(answer).error());
  const auto number = [&answer](const char* key) {
    const Json value = answer->is_object() ? answer->value(key, Json()) : Json();
    return value.is_number_integer() ? value.get<std::int64_t>() : -1;
  };
  const File place{number("fdset-id"), number("fd")};
  if (place.set < 0 || place.fd < 0) return fail("{}: add-fd: an answer that is none", name());
  return place;
}

Result<void> QemuMonitor::remove_file(const File& file) {
  auto removed = execute("remove-fd", {{"fdset-id", file.set}});
  if (!removed) return tl::unexpected(std::move(removed).error());
  return {};
}

Result<std::unique_ptr<QemuMonitor>> connect_qemu(const std::string& path, pid_t* peer) {
  auto socket = LineSocket::connect(path);
  if (!socket) return tl::unexpected(socket.error());
  if (peer != nullptr) *peer = socket->peer();
  const auto greeting = socket->receive();
  if (!greeting) return tl::unexpected(greeting.error());
  if (greeting->find(" monitor - type 'help'") != greeting->npos)
    return std::make_unique<HumanSocket>(std::move(*socket));
  if (!parsed_answer(*greeting).contains("QMP")) {
    return fail("{}: no QMP socket; start QEMU with -qmp unix:PATH,server=on,wait=off", path);
  }
  auto qemu = std::make_unique<QmpSocket>(std::move(*socket));
  if (auto ready = qemu->execute("qmp_capabilities", Json::object()); !ready)
    return tl::unexpected(std::move(ready).error());
  return qemu;
}

}  // namespace trapline
