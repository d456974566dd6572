// One run of the recorder, into a session or, with --flight, into memory.
//
//   prepare ─ instance, events ─ session folder ─ command at its gate ─ tracing on, sync ─┐
//       ┌──────────────────────────────────────────────────────────────────────────────────┘
//       └ poll: signals, end of the command, full buffers, requests, ticks: sync, flush
//            └ sync, tracing off, last pages ─ trace.dat ─ session.json closed ─ instance removed
//
// --from-instance makes a session of the events that somebody else's instance already holds: it has
// no start and no loop, only last pages.
//
// Guarantees for --from-instance: no setting of that instance is changed, nothing is written into
// it, and it stays. As with every reader of pages, the events that are taken are removed from its
// buffers. From each CPU at most one buffer's worth is taken, so that the command ends even if the
// instance keeps recording.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/record/cgroups.h"
#include "merge/record/command.h"
#include "merge/record/disk_sync.h"
#include "merge/record/flight.h"
#include "merge/record/instance.h"
#include "merge/record/instance_watch.h"
#include "merge/record/page_reader.h"
#include "merge/record/recorder.h"
#include "merge/record/running_qemu.h"
#include "merge/record/session_writer.h"
#include "merge/record/snapshot.h"
#include "merge/record/sync_log.h"
#include "merge/record/target.h"
#include "merge/record/vm_names.h"

namespace trapline::record {

class RecordingRun {
 public:
  explicit RecordingRun(const RecordOptions& options) : options_(options) {}
  [[nodiscard]] Result<int> run();

 private:
  // Steps of a run before it records, or to clean up if it cannot.
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> open_session();
  [[nodiscard]] Result<void> open_held();
  [[nodiscard]] Result<void> open_reader();
  [[nodiscard]] Result<void> make_output();
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> start_target();
  [[nodiscard]] Result<void> start_command();
  [[nodiscard]] Result<void> give_up_rights();
  [[nodiscard]] Result<void> start_syncing();
  void abandon();

  // Steps of a run while it records, and at its end.
  void loop();
  void on_signal();
  void on_tick();
  void on_end_of_target();
  void ask_to_end(int signal, const char* why);
  void look_at_times();
  void look_early();
  // Takes all pages that exist on all CPUs, also those that are still being filled.
  void take();
  void move_full(unsigned cpu);
  // Returns whether the kernel moves full pages into the files. Otherwise all pass through this
  // process.
  [[nodiscard]] bool moves_pages() const { return !flight_ && !hits_; }
  void take_last();
  // Takes the pages that the instance of --from-instance holds. The Error: nothing was taken.
  [[nodiscard]] Result<void> take_held();
  void count_losses();
  void cut_short(const Error& error);
  void stop_tracing();
  [[nodiscard]] Result<int> finish();
  [[nodiscard]] Result<void> close_session();

  void sync(bool texts);
  [[nodiscard]] bool note_hits();
  [[nodiscard]] bool look_at_threads(bool at_others = true);
  [[nodiscard]] bool look_at_instance();
  void note_edge();
  void describe(SessionJson& session) const;
  [[nodiscard]] std::string cmdlines(const TracedThreads& threads) const;
  void warn(const std::string& sentence);
  Result<std::string> snapshot(const std::string& asked_by, const std::string& why);
  [[nodiscard]] Result<std::string> write_snapshot(SessionFlight requested);

  void say(const std::string& line) const { options_.say(line); }

  static constexpr unsigned kSyncsASecond = 2;            // how often pages are written to disk
  static constexpr std::uint64_t kFirstLook = 5'000'000;  // ns until the threads are listed again

  // The names of threads and virtual machines seen from time `since` on.
  struct Names {
    TracedThreads threads;
    VmNames vms;
    std::uint64_t since = 0;
  };

  const RecordOptions& options_;
  Target target_;
  SessionJson session_;  // for a flight: what all snapshots have in common
  std::vector<EventName> events_;
  // The members below instance_ hold files of the instance open, so they are destroyed before it.
  std::optional<Instance> instance_;
  UniqueFd marker_, signals_, timer_, pidfd_;
  std::optional<TriggerMatcher> watch_;  // from --snapshot-on, until a sink takes it
  std::optional<SessionWriter> writer_;
  std::optional<Flight> flight_;
  // For --snapshot-on: keeps only the time around hits. With --flight, only finds hits.
  std::optional<Snapshot> hits_;
  std::vector<PageSink*> sinks_;  // of the pages that pass through this process
  std::optional<PageReader> reader_;
  std::optional<InstanceWatch> others_;
  std::optional<DiskSync> disk_;  // destroyed before the files that it syncs
  std::optional<Command> command_;
  std::optional<QemuEvents> qemu_events_;  // of a QEMU that was already running
  QemuAdditions additions_;
  Names names_;
  std::optional<TracedThreads> older_;  // for a flight: names from the hour before names_.since
  Cgroups cgroups_;
  RunCounts counts_;
  mode_t umask_ = 022;  // the command's umask
  SyncLog sync_;
  std::uint64_t started_ = 0, ended_ = 0, deadline_ = 0, end_requested_at_ = 0;
  std::uint64_t next_look_ = 0;  // when to list the threads again; 0: at the next tick
  unsigned end_requests_ = 0, ticks_ = 0, ticks_a_second_ = 1;
  bool tracing_ = false, running_ = true, nagged_ = false, warned_ = false;
  std::optional<Error> broken_;     // what cut the recording short
  std::vector<std::string> stats_;  // by CPU, after tracing has ended
};

}  // namespace trapline::record
