// A QEMU's monitor, in QMP: over its socket, or through another program that holds that. Or the
// human monitor's socket, which has what does not need QMP.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

class QemuMonitor {
 public:
  virtual ~QemuMonitor() = default;

  // A command with its arguments, an object; what it returns. Errors carry QEMU's words. `file`: a
  // descriptor of ours of which QEMU gets a copy; -1: none.
  [[nodiscard]] Result<nlohmann::json> execute(const std::string& command,
                                               const nlohmann::json& arguments, int file = -1);
  // A command of the human monitor; what that prints, each line trimmed.
  [[nodiscard]] virtual Result<std::vector<std::string>> human(const std::string& command);

  // A copy of the descriptor in QEMU, and the number that it has there.
  struct File {
    std::int64_t set = 0, fd = 0;
  };
  [[nodiscard]] virtual Result<File> add_file(int file);
  [[nodiscard]] virtual Result<void> remove_file(const File& file);

  [[nodiscard]] virtual const std::string& name() const = 0;  // for messages

 protected:
  // Sends a line; then the next line that comes back, which may be an event of the machine.
  [[nodiscard]] virtual Result<void> send(const std::string& line, int file) = 0;
  [[nodiscard]] virtual Result<std::string> receive() = 0;
};

// Through a socket of -qmp, or of -monitor: then execute() is an Error. `peer`: the process that
// listens there, 0 where that is not known.
[[nodiscard]] Result<std::unique_ptr<QemuMonitor>> connect_qemu(const std::string& path,
                                                                pid_t* peer = nullptr);

}  // namespace trapline
