// Detects whether another process changes the instance's settings or empties its buffers during the
// recording. The kernel does not count the events that are missing because of that.
//
//   set_up ── accept() ── look() ── look() ── …      our own writes come before accept()
//                 as set     │ written, or not as set: a change begins at the look before
//                            └ as set again: it ends at this look
//
// inotify reports each write of another process at once, even if it is undone before the next look.
// If inotify does not report our own write at the start, it is not relied upon. In every case the
// settings are also compared at each look, and the kernel's counts must not decrease.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/clock.h"
#include "merge/record/event_set.h"
#include "merge/record/instance.h"
#include "merge/session/session_json.h"

namespace trapline::record {

class InstanceWatch {
 public:
  // Watches an instance that is set up; `clock` is the recording's. Call it before tracing is
  // switched on, which is the first write that must be reported.
  InstanceWatch(const Instance& instance, const std::vector<EventName>& events,
                const std::string& clock);
  // Takes the present settings as the intended ones, and all writes so far as our own.
  void accept();
  // Returns what is new since the last look: a sentence for each file that was written or has
  // another setting.
  [[nodiscard]] std::vector<std::string> look();
  // Returns the changes with their times on the recording's clock, which are 0 if that clock cannot
  // be read. The last change may still be going on.
  [[nodiscard]] const std::vector<SessionChange>& changes() const { return changes_; }
  // Returns whether no change can have gone unseen.
  [[nodiscard]] bool sees_all() const { return told_; }

 private:
  void watch(const std::string& file);
  [[nodiscard]] std::vector<std::string> written();
  [[nodiscard]] std::string setting(const std::string& file) const;
  [[nodiscard]] std::vector<std::string> fallen();
  [[nodiscard]] std::uint64_t now() const;

  const Instance& instance_;
  std::vector<EventName> events_;
  std::optional<ClockId> clock_;
  UniqueFd inotify_;
  std::map<int, std::string> files_;             // by watch descriptor
  std::map<std::string, std::string> settings_;  // the intended settings, by file
  std::map<std::string, std::uint64_t> counts_;  // counts that must not decrease
  std::vector<SessionChange> changes_;
  std::uint64_t last_good_ = 0, started_ = 0;
  bool told_ = true;  // inotify watches every file, and reported our own write
};

}  // namespace trapline::record
