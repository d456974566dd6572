// trapline record --flight: the last minute in memory, for as long as the host is up, and a session
// of it when somebody asks.
//
//   pages ──> ring ── write() ──> FOLDER/20261121T224510Z
//        └──> finder: the exits and stalls that --snapshot-on waits for
//
// Who asks: trapline snapshot (flight_control.h), SIGUSR1, a hit of the finder's (then the snapshot
// is taken --around after its end, to have what followed, or, while it lasts, after it was
// certain).
//
// Guarantees: memory is bounded (the ring, and the kernel's buffers); the disk is written for
// snapshots only, at most one in each `spacing_ns`, together no more than the budget. A snapshot
// that fails is removed. While one is written the kernel's buffers take what comes; what they could
// not is marked as lost in the next one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "merge/record/flight_control.h"
#include "merge/record/flight_ring.h"
#include "merge/record/flight_store.h"
#include "merge/record/instance.h"
#include "merge/record/page_reader.h"
#include "merge/record/recorder.h"
#include "merge/record/session_writer.h"
#include "merge/record/snapshot.h"

namespace trapline::record {

// A piece of the recording, by its clock: both ends are included.
struct FlightCut {
  std::uint64_t from = 0, to = 0;
};

class Flight final : public PageSink {
 public:
  // Its folder, with nothing of a dead recorder's in it, and its socket.
  [[nodiscard]] static Result<Flight> open(const RecordOptions& options);
  // Before the first page.
  void start(const PageReader& reader, std::optional<TriggerMatcher> trigger);

  [[nodiscard]] std::size_t room(unsigned cpu) const override;
  void begin_round() override;
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  void drained(unsigned cpu) override;
  [[nodiscard]] Result<void> end_round() override;

  // The hits that --snapshot-on has found; nullptr without that option.
  [[nodiscard]] const SnapshotFacts* found() const { return finder_ ? &finder_->facts() : nullptr; }
  // Looks at that: a new hit is to have a snapshot. When that is due, of CLOCK_MONOTONIC; 0: not.
  void look_for_hit();
  [[nodiscard]] std::uint64_t due() const { return due_; }
  // Why it is; it is due no more.
  [[nodiscard]] std::string take_due();

  [[nodiscard]] const FlightControl& control() const { return control_; }
  [[nodiscard]] const Folder& folder() const { return store_.folder(); }
  // All pages that were made before this call, and a time up to which the ring has every event.
  [[nodiscard]] Result<std::uint64_t> read_all(PageReader& reader);
  // An Error if the last snapshot is less than --spacing ago.
  [[nodiscard]] Result<void> check_spacing();
  // The time that the ring holds, up to `complete`.
  [[nodiscard]] FlightCut cut(std::uint64_t complete) const;
  // Writes it as a session, of which `session` and `cmdlines` tell, and gets what the kernel lost;
  // the path of its folder.
  [[nodiscard]] Result<std::string> write(const Instance& instance,
                                          const std::vector<EventName>& events,
                                          const FlightCut& cut, SessionJson& session,
                                          const std::string& cmdlines);
  // Tells the user what the recorder holds, where, and how to ask for it.
  void say_what_it_does() const;

 private:
  Flight(const RecordOptions& options, FlightStore store, FlightControl control)
      : options_(&options), store_(std::move(store)), control_(std::move(control)) {}
  [[nodiscard]] Result<void> write_parts(SessionWriter& writer, const Instance& instance,
                                         const std::vector<EventName>& events, const FlightCut& cut,
                                         SessionJson& session, const std::string& cmdlines) const;
  void say(const std::string& line) const { options_->say(line); }
  void say_snapshot(const std::string& path, const SessionJson& session) const;

  const RecordOptions* options_;
  FlightStore store_;
  FlightControl control_;
  std::optional<FlightRing> ring_;
  std::optional<Snapshot> finder_;  // by which --snapshot-on alone finds hits; it keeps nothing
  std::uint64_t hits_ = 0, certain_ = 0, due_ = 0;  // hits seen, ended and not
  std::string due_why_;
  std::uint64_t last_ = 0;     // when the last snapshot was taken
  std::uint64_t refused_ = 0;  // since then
};

}  // namespace trapline::record
