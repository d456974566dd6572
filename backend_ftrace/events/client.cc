#include "backend_ftrace/events/client.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/events/line_socket.h"
#include "backend_ftrace/events/qemu_monitor.h"

namespace trapline {
namespace {

using Json = nlohmann::json;

// Returns "" if the object has no such text.
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
  // Appends the lines of the answer that describe no event to `text`.
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
  explicit Qmp(std::unique_ptr<QemuMonitor> qemu) : qemu_(std::move(qemu)) {}

  Result<std::vector<EventState>> list(const std::string& pattern) override {
    auto answer = qemu_->execute("trace-event-get-state", {{"name", pattern}});
    if (!answer) return tl::unexpected(answer.error());
    std::vector<EventState> states;
    for (const Json& event : *answer) {
      // QEMU also has "unavailable": compiled out.
      states.push_back({text_of(event, "name"), text_of(event, "state") == "enabled"});
    }
    if (states.empty()) return unknown(pattern);
    return states;
  }

  Result<void> set(const std::string& pattern, bool on) override {
    // QEMU's own error for an unknown name does not suggest the nearest one.
    if (auto known = qemu_->execute("trace-event-get-state", {{"name", pattern}});
        !known || known->empty()) {
      return unknown(pattern);
    }
    auto answer = qemu_->execute("trace-event-set-state",
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
    auto all = qemu_->execute("trace-event-get-state", {{"name", "*"}});
    std::vector<std::string> names;
    if (all) {
      for (const Json& event : *all) names.push_back(text_of(event, "name"));
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    near = nearest(pattern, views);
    return fail("{}: no event matches '{}'{}{}{}", qemu_->name(), pattern,
                near.empty() ? "" : "; did you mean ", near, near.empty() ? "" : "?");
  }

  std::unique_ptr<QemuMonitor> qemu_;
};

}  // namespace

Result<std::unique_ptr<EventControl>> connect_monitor(const std::string& path) {
  auto socket = LineSocket::connect(path);
  if (!socket) return tl::unexpected(socket.error());
  return std::make_unique<Monitor>(std::move(*socket));
}

Result<std::unique_ptr<EventControl>> connect_qmp(const std::string& path) {
  auto qemu = connect_qemu(path);
  if (!qemu) return tl::unexpected(std::move(qemu).error());
  return std::make_unique<Qmp>(std::move(*qemu));
}

}  // namespace trapline
