// trapline record --flight: the last minute in memory, for as long as the host is up.
//
//   prepare ─ folder, instance, events ─ tracing on ─┐
//      ┌───────────────────────────────────────────────┘
//      └ poll: pages into the ring · once a second a sync series · somebody asks ──> a snapshot
//             └ SIGTERM, SIGINT: instance removed, what is in memory is dropped
//
// Who asks: trapline snapshot (flight_control.h), SIGUSR1, an exit or stall that --snapshot-on
// waits for (then the snapshot is taken --around after its end, to have what followed, or, while
// it lasts, after it was certain).
//
// Guarantees: memory is bounded (the ring, and the kernel's buffers); the disk is written for
// snapshots only, at most one in each `spacing_ns`, together no more than the budget. A snapshot
// that fails is said and removed, and the recorder goes on. While a snapshot is written the
// kernel's buffers take what comes; what they could not is marked as lost in the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "merge/record/flight_control.h"
#include "merge/record/flight_pages.h"
#include "merge/record/flight_store.h"
#include "merge/record/session.h"
#include "merge/record/vm_names.h"

namespace trapline::record {

class FlightRecorder {
 public:
  explicit FlightRecorder(const RecordOptions& options) : options_(options) {}
  // 0 at its end; an Error where it could not begin, or the kernel gave what is no page.
  [[nodiscard]] Result<int> run();

 private:
  // The names of threads and virtual machines that were seen in a span of time.
  struct Names {
    ThreadTable threads;
    VmNames vms;
    std::uint64_t since = 0;
  };

  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> open_pages(std::optional<TriggerMatcher> trigger);
  [[nodiscard]] Result<void> start();
  void say_what_it_does() const;
  [[nodiscard]] Result<void> loop();
  [[nodiscard]] Result<void> on_tick();
  void on_signal();
  void look_at_names();
  void look_for_hit();

  // The path of the snapshot's session.
  [[nodiscard]] Result<std::string> snapshot(const std::string& asked_by, const std::string& why);
  [[nodiscard]] Result<std::string> write_snapshot(const std::string& asked_by,
                                                   const std::string& why);
  void say_snapshot(const std::string& path, const Session& session) const;
  void say(const std::string& line) const { options_.say(line); }

  const RecordOptions& options_;
  std::optional<FlightStore> store_;
  std::optional<FlightControl> control_;
  std::optional<Instance> instance_;  // the files below hold it open: they go before it
  UniqueFd marker_, signals_, timer_, pidfd_;
  std::optional<FlightPages> pages_;
  std::vector<EventName> events_;
  Names names_, older_;
  std::vector<std::string> warnings_;
  bool was_switched_off_ = false;  // tracing_on, by somebody else
  std::uint64_t ticks_ = 0, deadline_ = 0;
  // Of --snapshot-on: those seen, ended and not, and when the snapshot of one is taken.
  std::uint64_t hits_ = 0, certain_ = 0, due_ = 0;
  std::string due_why_;
  std::uint64_t last_ = 0;     // when the last snapshot was taken
  std::uint64_t refused_ = 0;  // since then
  bool running_ = true, warned_ = false;
};

}  // namespace trapline::record
