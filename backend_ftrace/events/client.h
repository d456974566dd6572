// Controls the events of another program through its monitor socket or a QEMU's QMP socket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct EventState {
  std::string name;
  bool on = false;
};

class EventControl {
 public:
  virtual ~EventControl() = default;
  // Lists the events that match. Errors quote the program; a name that matches nothing is an error
  // with the nearest name.
  [[nodiscard]] virtual Result<std::vector<EventState>> list(const std::string& pattern) = 0;
  [[nodiscard]] virtual Result<void> set(const std::string& pattern, bool on) = 0;
  // `action` is "on", "off", "flush", "status", the path of a new file, or "layout=qemu" or
  // "layout=rfc", the format of files that are opened later. Returns the program's answer.
  [[nodiscard]] virtual Result<std::string> trace_file(const std::string& action) = 0;
};

[[nodiscard]] Result<std::unique_ptr<EventControl>> connect_monitor(const std::string& path);
[[nodiscard]] Result<std::unique_ptr<EventControl>> connect_qmp(const std::string& path);

}  // namespace trapline
