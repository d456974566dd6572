// A QEMU that runs already, and its events: through its monitor its log becomes the recording's
// marker, so that they are on the recording's own clock.
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

// libvirt's domain, which holds its QEMU's monitor: through virsh. `uri`: as virsh --connect has
// it; empty: virsh's default. A session's is asked as the user who called sudo.
[[nodiscard]] Result<RunningQemu> find_domain(const std::string& name, const std::string& uri);
// The QEMU that listens at this QMP socket, or process `pid` where that is not 0.
[[nodiscard]] Result<RunningQemu> find_qmp(const std::string& socket, pid_t pid);

// The user and group of its file operations; nothing of root's.
[[nodiscard]] std::optional<User> user_of(pid_t pid);

// Guarantees: an event that was on stays on, one that was off is off afterwards, and QEMU holds no
// descriptor of the recording's. Its log then goes where -D says, else nowhere: QEMU cannot be told
// to go back to stderr.
//
//   look ── attach: the log is the marker ── switch_on ── stop
class QemuEvents {
 public:
  QemuEvents(RunningQemu qemu, std::vector<std::string> patterns)
      : qemu_(std::move(qemu)), patterns_(std::move(patterns)) {}
  QemuEvents(const QemuEvents&) = delete;
  QemuEvents& operator=(const QemuEvents&) = delete;
  ~QemuEvents() { (void)stop(); }

  // A sentence for each thing that cannot be had. Changes nothing.
  [[nodiscard]] std::vector<std::string> look();
  // An Error too where process `pid` does not get it: then it is not the monitor's.
  [[nodiscard]] Result<void> attach(int marker);
  [[nodiscard]] Result<void> switch_on();
  // Sentences of what could not be undone.
  std::vector<std::string> stop();

 private:
  [[nodiscard]] bool holds_marker() const;

  RunningQemu qemu_;
  std::vector<std::string> patterns_;
  std::vector<std::string> off_, switched_;  // events: to switch on, and those that were
  bool usable_ = false;                      // it has a log that events go to
  bool attached_ = false;                    // its log is the marker
  std::pair<dev_t, ino_t> marker_{};
};

// Of each virtual machine that runs: how its QEMU's events can be recorded.
[[nodiscard]] std::vector<Finding> check_running_qemus();

}  // namespace trapline::record
