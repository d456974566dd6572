#include "backend_ftrace/events/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "backend_ftrace/base/json_text.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {
namespace {

using Json = nlohmann::json;
constexpr int kPatience = 10'000;  // ms for one answer
constexpr std::size_t kMaxLine = 16u << 20;

// Lines over a Unix socket.
class LineSocket {
 public:
  static Result<LineSocket> connect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
      return fail("{}: the path is too long for a socket", path);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd ||
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return fail("{}: {}; is the program running with this socket?", path, std::strerror(errno));
    }
    return LineSocket(path, std::move(fd));
  }

  Result<void> send(std::string text) {
    text += '\n';
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return fail("{}: {}", path_, std::strerror(errno));
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
  }

  Result<std::string> receive() {
    for (std::size_t looked_at = line_;;) {
      if (const auto end = buffer_.find('\n', looked_at); end != std::string::npos) {
        std::string line = buffer_.substr(line_, end - line_);
        line_ = end + 1;
        return line;
      }
      buffer_.erase(0, std::exchange(line_, 0));
      looked_at = buffer_.size();
      if (buffer_.size() > kMaxLine) return fail("{}: an answer that does not end", path_);
      pollfd ready{fd_.get(), POLLIN, 0};
      if (const int count = ::poll(&ready, 1, kPatience); count < 0 && errno == EINTR)
        continue;
      else if (count <= 0)
        return fail("{}: no answer", path_);
      char bytes[65536];
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) return fail("{}: the program closed the connection", path_);
      buffer_.append(bytes, static_cast<std::size_t>(got));
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  LineSocket(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  std::size_t line_ = 0;  // where in it the next line begins
};

// Nothing where it is no object, or nests too deep.
Json parse_answer(const std::string& line) {
  return is_bounded_json(line) ? Json::parse(line, nullptr, false) : Json();
}

// Nothing where there is no such text.
std::string text_of(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class Monitor : public EventControl {
 public:
  explicit Monitor(LineSocket socket) : socket_(std::move(socket)) {}

  Result<std::vector<EventState>> list(const std::string& pattern) override {
    std::vector<EventState> states;
    auto done = command("info trace-events " + pattern, &states);
    if (!done) return tl::unexpected(done.error());
    return states;
  }
  Result<void> set(const std::string& pattern, bool on) override {
    return command("trace-event " + pattern + (on ? " on" : " off"), nullptr);
  }
  Result<std::string> trace_file(const std::string& action) override {
    std::string text;
    auto done = command(trace_file_command(action), nullptr, &text);
    if (!done) return tl::unexpected(done.error());
    return text;
  }

 private:
  static std::string trace_file_command(const std::string& action) {
    if (action == "status") return "trace-file";
    if (action.starts_with("layout=")) return "trace-file layout " + action.substr(7);
    const bool plain = action == "on" || action == "off" || action == "flush";
    return "trace-file " + (plain ? action : "set " + action);
  }
  // Lines of the answer that are no event's go into `text`.
  Result<void> command(const std::string& line, std::vector<EventState>* states,
                       std::string* text = nullptr) {
    if (line.find('\n') != std::string::npos) return fail("a name cannot hold a line end");
    if (auto sent = socket_.send(line); !sent) return sent;
    for (;;) {
      auto answer = socket_.receive();
      if (!answer) return tl::unexpected(answer.error());
      if (*answer == "ok") return {};
      if (answer->starts_with("error: ")) return fail("{}: {}", socket_.path(), answer->substr(7));
      if (text != nullptr) *text += *answer + '\n';
      const auto colon = answer->find(" : state ");
      if (states == nullptr || colon == std::string::npos) continue;
      states->push_back({answer->substr(0, colon), answer->ends_with('1')});
    }
  }
  LineSocket socket_;
};

class Qmp : public EventControl {
 public:
  static Result<std::unique_ptr<EventControl>> open(LineSocket socket) {
    auto qmp = std::make_unique<Qmp>(std::move(socket));
    auto greeting = qmp->socket_.receive();
    if (!greeting) return tl::unexpected(greeting.error());
    if (!parse_answer(*greeting).contains("QMP")) {
      return fail("{}: no QMP socket; start QEMU with -qmp unix:PATH,server=on,wait=off",
                  qmp->socket_.path());
    }
    if (auto ready = qmp->execute("qmp_capabilities", Json::object()); !ready) {
      return tl::unexpected(ready.error());
    }
    return qmp;
  }
  explicit Qmp(LineSocket socket) : socket_(std::move(socket)) {}

  Result<std::vector<EventState>> list(const std::string& pattern) override {
    auto answer = execute("trace-event-get-state", {{"name", pattern}});
    if (!answer) return tl::unexpected(answer.error());
    std::vector<EventState> states;
    for (const Json& event : *answer) {
      // "unavailable": compiled out.
      states.push_back({text_of(event, "name"), text_of(event, "state") == "enabled"});
    }
    if (states.empty()) return unknown(pattern);
    return states;
  }

  Result<void> set(const std::string& pattern, bool on) override {
    // QEMU's own error for a name that it does not know lacks the nearest.
    if (auto known = execute("trace-event-get-state", {{"name", pattern}});
        !known || known->empty()) {
      return unknown(pattern);
    }
    auto answer = execute("trace-event-set-state",
                          {{"name", pattern}, {"enable", on}, {"ignore-unavailable", true}});
    if (!answer) return tl::unexpected(answer.error());
    return {};
  }

  Result<std::string> trace_file(const std::string&) override {
    return fail(ErrorKind::kUsage, "QMP has no trace-file command; use QEMU's monitor (HMP)");
  }

 private:
  tl::unexpected<Error> unknown(const std::string& pattern) {
    std::string_view near;
    auto all = execute("trace-event-get-state", {{"name", "*"}});
    std::vector<std::string> names;
    if (all) {
      for (const Json& event : *all) names.push_back(text_of(event, "name"));
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    near = nearest(pattern, views);
    return fail("{}: no event matches '{}'{}{}{}", socket_.path(), pattern,
                near.empty() ? "" : "; did you mean ", near, near.empty() ? "" : "?");
  }

  Result<Json> execute(const std::string& name, Json arguments) {
    const Json request{{"execute", name}, {"arguments", std::move(arguments)}};
    if (auto sent = socket_.send(request.dump(-1, ' ', true, Json::error_handler_t::replace));
        !sent) {
      return tl::unexpected(sent.error());
    }
    for (;;) {
      auto line = socket_.receive();
      if (!line) return tl::unexpected(line.error());
      Json answer = parse_answer(*line);
      if (!answer.is_object()) return fail("{}: the answer is not a JSON object", socket_.path());
      if (answer.contains("return")) return answer["return"];
      if (answer.contains("error")) {
        return fail("{}: {}: {}", socket_.path(), name, text_of(answer["error"], "desc"));
      }
      // An event of the machine: the answer is still to come.
    }
  }
  LineSocket socket_;
};

}  // namespace

Result<std::unique_ptr<EventControl>> connect_monitor(const std::string& path) {
  auto socket = LineSocket::connect(path);
  if (!socket) return tl::unexpected(socket.error());
  return std::make_unique<Monitor>(std::move(*socket));
}

Result<std::unique_ptr<EventControl>> connect_qmp(const std::string& path) {
  auto socket = LineSocket::connect(path);
  if (!socket) return tl::unexpected(socket.error());
  return Qmp::open(std::move(*socket));
}

}  // namespace trapline
