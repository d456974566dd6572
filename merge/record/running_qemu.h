// Records the events of a QEMU that is already running: through its monitor, its log becomes the
// recording's marker, so that the events are on the recording's own clock.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/events/qemu_monitor.h"
#include "merge/record/command.h"
#include "merge/record/doctor.h"

namespace trapline::record {

struct RunningQemu {
  pid_t pid = 0;
  std::shared_ptr<QemuMonitor> monitor;
};

// Finds the QEMU of a libvirt domain. Goes through virsh, because libvirt holds QEMU's monitor.
// `uri`: as for virsh --connect; empty: virsh's default. For qemu:///session, virsh runs as the
// user who called sudo.
[[nodiscard]] Result<RunningQemu> find_domain(const std::string& name, const std::string& uri);
// Connects to the QEMU that listens at this QMP socket. `pid`: its process; 0: the socket's peer.
[[nodiscard]] Result<RunningQemu> find_qmp(const std::string& socket, pid_t pid);

// Returns a process's effective user and group; nullopt for root, or if they are not known.
[[nodiscard]] std::optional<User> user_of(pid_t pid);

// Guarantees: after stop(), an event that was on is still on, an event that was off is off again,
// and QEMU keeps no descriptor of the recording. QEMU's log then goes to the file of -D, or nowhere
// without -D: QEMU has no command to return to stderr.
//
//   look ── attach: the log is the marker ── switch_on ── stop
class QemuEvents {
 public:
  QemuEvents(RunningQemu qemu, std::vector<std::string> patterns)
      : qemu_(std::move(qemu)), patterns_(std::move(patterns)) {}
  QemuEvents(const QemuEvents&) = delete;
  QemuEvents& operator=(const QemuEvents&) = delete;
  ~QemuEvents() { (void)stop(); }

  // Returns a sentence for each thing that cannot be recorded. Changes nothing.
  [[nodiscard]] std::vector<std::string> look();
  // Makes the marker QEMU's log. Also an Error if process `pid` does not get the descriptor: then
  // the monitor belongs to another process.
  [[nodiscard]] Result<void> attach(int marker);
  [[nodiscard]] Result<void> switch_on();
  // Undoes the changes. Returns sentences about what could not be undone.
  std::vector<std::string> stop();

 private:
  [[nodiscard]] bool holds_marker() const;

  RunningQemu qemu_;
  std::vector<std::string> patterns_;
  std::vector<std::string> off_, switched_;  // events to switch on; events that were switched on
  bool usable_ = false;                      // QEMU has a log that events go to
  bool attached_ = false;                    // the marker is QEMU's log
  std::pair<dev_t, ino_t> marker_{};
};

// Returns, for each running virtual machine, how its QEMU's events can be recorded.
[[nodiscard]] std::vector<Finding> check_running_qemus();

}  // namespace trapline::record
