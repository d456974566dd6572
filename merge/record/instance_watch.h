// Whether another process changes the instance while it is recorded: the kernel counts no loss.
//
//   set_up ── accept() ── look() ── look() ── …      our own writes come before accept()
//                 as set     │ written, or not as set: a change begins at the look before
//                            └ as set again: it ends at this look
//
// Each write of another process is told at once by inotify, also one that is taken back before the
// next look. A kernel that does not tell of our own write at the start is not believed: then, as
// always besides, the settings are compared at each look, and the kernel's counts must not fall.
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
  // Of an instance that is set up; `clock` is the recording's. Before tracing is switched on, which
  // is the first write that is to be told.
  InstanceWatch(const Instance& instance, const std::vector<EventName>& events,
                const std::string& clock);
  // The settings are as they are to be; what was written so far are our own writes.
  void accept();
  // What is new since the last look: a sentence for each file that was written or is not as set.
  [[nodiscard]] std::vector<std::string> look();
  // The times of changes, by the recording's clock, of which the last may still go on. Without a
  // clock that can be read they are 0.
  [[nodiscard]] const std::vector<SessionChange>& changes() const { return changes_; }
  // Whether no change can have gone unseen.
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
  std::map<int, std::string> files_;             // by the watch
  std::map<std::string, std::string> settings_;  // as set, by the file
  std::map<std::string, std::uint64_t> counts_;  // that only grow
  std::vector<SessionChange> changes_;
  std::uint64_t last_good_ = 0, started_ = 0;
  bool told_ = true;  // of every file, and of our own write
};

}  // namespace trapline::record
