// trapline record --flight: keeps the last minute in memory, for as long as the host is up, and
// writes a session of it on request.
//
//   pages ──> ring ── write() ──> FOLDER/20261121T224510Z
//        └──> Snapshot: finds the exits and stalls that --snapshot-on waits for, and keeps nothing
//
// A request is `trapline snapshot` (flight_control.h), SIGUSR1, or a hit of --snapshot-on. To
// include what followed a hit, the snapshot is taken --around after the hit's end or, if the hit
// still goes on, after it became certain.
//
// Guarantees: memory is bounded (the ring, and the kernel's buffers). Only snapshots are written to
// disk, at most one per `spacing_ns`, and together no more than the budget. A snapshot that fails
// is removed. While one is written, the kernel's buffers take further events; what does not fit is
// marked as lost in the next snapshot.
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

class Flight {
 public:
  // Memory, for all CPUs together, of pages that are searched for hits: the search waits until the
  // pages of all CPUs for the same time are there.
  static constexpr std::size_t kFinderBytes = 4u << 20;

  // Opens the folder for snapshots, removes what a killed recorder left unfinished in it, and opens
  // the socket for requests.
  [[nodiscard]] static Result<Flight> open(const RecordOptions& options);
  // Makes and returns the ring for the pages of `reader`.
  [[nodiscard]] FlightRing& start(const PageReader& reader);

  // Makes a snapshot due if `found` has a new hit. due() returns the time on CLOCK_MONOTONIC at
  // which to take it; 0: no snapshot is due.
  void look_for_hit(const SnapshotFacts& found);
  [[nodiscard]] std::uint64_t due() const { return due_; }
  // Returns why a snapshot is due. Afterwards no snapshot is due.
  [[nodiscard]] std::string take_due();

  [[nodiscard]] const FlightControl& control() const { return control_; }
  [[nodiscard]] const Folder& folder() const { return store_.folder(); }
  // Reads all pages made before this call into the sinks, one of which is the ring. Returns a time
  // up to which the ring has every event.
  [[nodiscard]] Result<std::uint64_t> read_all(PageReader& reader, PageSinks sinks);
  // Returns an Error if the last snapshot was taken less than --spacing ago.
  [[nodiscard]] Result<void> check_spacing();
  // Returns the time range that the ring holds, up to `complete`, the result of read_all().
  [[nodiscard]] Window cut(std::uint64_t complete) const;
  // Writes the events inside `cut` as a session described by `session`, with the thread names in
  // `cmdlines`; adds the kernel's losses to `session`. Returns the path of the session's folder.
  [[nodiscard]] Result<std::string> write(const Instance& instance,
                                          const std::vector<EventName>& events, const Window& cut,
                                          SessionJson& session, const std::string& cmdlines);
  // Tells the user what the recorder keeps, where, and how to request a snapshot.
  void say_what_it_does() const;

 private:
  Flight(const RecordOptions& options, FlightStore store, FlightControl control)
      : options_(&options), store_(std::move(store)), control_(std::move(control)) {}
  void say(const std::string& line) const { options_->say(line); }
  void say_snapshot(const std::string& path, const SessionJson& session) const;

  const RecordOptions* options_;
  FlightStore store_;
  FlightControl control_;
  std::optional<FlightRing> ring_;
  std::uint64_t hits_ = 0, certain_ = 0, due_ = 0;  // hits_, certain_: counts at the last look
  std::string due_why_;
  std::uint64_t last_ = 0;     // time of the last snapshot
  std::uint64_t refused_ = 0;  // requests refused since the last snapshot
};

}  // namespace trapline::record
