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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "merge/record/flight_control.h"
#include "merge/record/flight_ring.h"
#include "merge/record/flight_store.h"
#include "merge/record/instance.h"
#include "merge/record/instance_watch.h"
#include "merge/record/page_streams.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/snapshot.h"
#include "merge/record/vm_names.h"

namespace trapline::record {

// The pages of all CPUs, from the instance's buffers into the ring; and the exits in them that
// --snapshot-on waits for.
class FlightPages {
 public:
  [[nodiscard]] static Result<FlightPages> open(const Instance& instance,
                                                const FlightRingOptions& options);

  // Before the first page. The hits are found by what --snapshot-on alone finds them with: a
  // Snapshot that keeps nothing.
  void look_for(TriggerMatcher trigger);
  // What was found so far; nothing where nothing is looked for.
  [[nodiscard]] const SnapshotFacts* found() const { return finder_ ? &finder_->facts() : nullptr; }

  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  [[nodiscard]] int fd(std::size_t cpu) const { return streams_[cpu].fd(); }  // to poll
  // What is there, the pages still being filled too; whether that was all.
  [[nodiscard]] Result<bool> read();
  // All of it, and a time up to which the ring has every event of every CPU.
  [[nodiscard]] Result<std::uint64_t> read_all();

  [[nodiscard]] const FlightRing& ring() const { return ring_; }
  void close();  // before the instance is removed

 private:
  explicit FlightPages(const FlightRingOptions& options)
      : ring_(options), page_size_(options.page_size) {}
  [[nodiscard]] Result<bool> round();

  FlightRing ring_;
  std::size_t page_size_;
  std::vector<PageStream> streams_;
  std::unique_ptr<Snapshot> finder_;
};

// A snapshot of the flight recorder, written as a session of its own.
struct FlightCut {
  std::uint64_t from = 0, to = 0;  // stamps, both included
};

struct FlightContent {
  const Instance& instance;
  const RecordOptions& options;  // but for the folder
  const FlightRing& ring;
  unsigned cpus = 0;
  std::string cmdlines;  // "TID NAME" lines
};

// Writes the folder STORE/NAME, which is not there yet: trace.dat with the events of `cut`, and
// session.json, closed. `session` gets what the kernel lost. After an Error it is not there.
[[nodiscard]] Result<void> write_flight_session(const Folder& store, const std::string& name,
                                                const FlightContent& content, const FlightCut& cut,
                                                Session& session);

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
  void look_at_instance();
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
  std::optional<InstanceWatch> others_;
  std::vector<EventName> events_;
  Names names_, older_;
  std::vector<std::string> warnings_;
  std::uint64_t ticks_ = 0, deadline_ = 0;
  // Of --snapshot-on: those seen, ended and not, and when the snapshot of one is taken.
  std::uint64_t hits_ = 0, certain_ = 0, due_ = 0;
  std::string due_why_;
  std::uint64_t last_ = 0;     // when the last snapshot was taken
  std::uint64_t refused_ = 0;  // since then
  bool running_ = true, warned_ = false;
};

}  // namespace trapline::record
