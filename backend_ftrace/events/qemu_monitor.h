// A connection to QEMU's monitor. It speaks QMP, directly through QEMU's socket or through another
// program that holds the socket; or it uses the human monitor's socket for everything that does not
// need QMP.
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

  // Executes a QMP command with `arguments`, an object, and returns its result. Errors quote QEMU.
  // `file`: QEMU gets a copy of this descriptor; -1: none.
  [[nodiscard]] Result<nlohmann::json> execute(const std::string& command,
                                               const nlohmann::json& arguments, int file = -1);
  // Executes a command of the human monitor. Returns the lines that it prints, trimmed.
  [[nodiscard]] virtual Result<std::vector<std::string>> human(const std::string& command);

  // A copy of a descriptor in QEMU: its fd set, and the number that it has in QEMU.
  struct File {
    std::int64_t set = 0, fd = 0;
  };
  [[nodiscard]] virtual Result<File> add_file(int file);
  [[nodiscard]] virtual Result<void> remove_file(const File& file);

  [[nodiscard]] virtual const std::string& name() const = 0;  // for messages

 protected:
  // Returns the id of the next command; 0: another program holds the socket and chooses it.
  [[nodiscard]] virtual std::uint64_t next_id() { return 0; }
  // Sends a line. receive() returns the next line from QEMU, which may be an event of the machine.
  [[nodiscard]] virtual Result<void> send(const std::string& line, int file) = 0;
  [[nodiscard]] virtual Result<std::string> receive() = 0;
};

// Connects to a socket of -qmp, or of -monitor; with the latter execute() returns an Error. `peer`
// gets the process that listens there, 0 if that is not known.
[[nodiscard]] Result<std::unique_ptr<QemuMonitor>> connect_qemu(const std::string& path,
                                                                pid_t* peer = nullptr);

}  // namespace trapline
