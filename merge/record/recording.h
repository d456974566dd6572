// One recording, in its own words: recorder.h tells what it does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "merge/record/cgroups.h"
#include "merge/record/command.h"
#include "merge/record/disk_sync.h"
#include "merge/record/instance.h"
#include "merge/record/instance_watch.h"
#include "merge/record/page_streams.h"
#include "merge/record/qemu_command.h"
#include "merge/record/recorder.h"
#include "merge/record/running_qemu.h"
#include "merge/record/session.h"
#include "merge/record/vm_names.h"

namespace trapline::record {

// What is recorded, before anything is made: the command found, asked and completed.
struct Target {
  std::optional<User> user;
  bool qemu = false;
  QemuFacts facts;
  std::vector<std::string> symbols;  // absolute
};

// Errors: no such program, user, process, symbol file; options that do not go together.
[[nodiscard]] Result<Target> look_at_target(const RecordOptions& options);

// The command line to run, completed where it is a QEMU; `marker` is what -D is to name, `folder`
// the session's.
[[nodiscard]] Result<QemuAdditions> complete_command(const RecordOptions& options,
                                                     const Target& target,
                                                     const std::string& marker,
                                                     const Instance& instance,
                                                     const std::string& folder);

// Copies what readers want beside the recording: symbols/, trace-events-all.
void copy_companions(const Folder& session, const RecordOptions& options, const Target& target);

class Recording {
 public:
  explicit Recording(const RecordOptions& options) : options_(options) {}
  Result<int> run();

 private:
  // recorder.cc: up to the command's start.
  Result<void> prepare();
  Result<void> open_session();
  Result<void> open_streams();
  Result<void> make_output();
  Result<void> start();
  Result<void> start_syncing();

  // recording.cc: while it goes on, and its end.
  void loop();
  void on_signal();
  void on_tick();
  void sync(std::map<std::string, std::string> texts);
  void on_end_of_target();
  void ask_to_end(int signal, const char* why);
  void look_after_grace();
  [[nodiscard]] bool look_at_threads();
  void look_early();
  void drain(std::size_t cpu);
  void cut_short(const Error& error);
  void stop_tracing();
  Result<int> finish();
  Result<void> close_session();
  [[nodiscard]] bool write_sync();
  void note_streams();
  [[nodiscard]] bool look_at_instance();
  [[nodiscard]] std::map<std::string, std::string> texts();

  void say(const std::string& line) const { options_.say(line); }

  static constexpr unsigned kSyncs = 2;         // in a second: pages go to the disk
  static constexpr unsigned kFollowTicks = 10;  // in a second, where others read the session
  [[nodiscard]] unsigned ticks_a_second() const { return options_.follow ? kFollowTicks : kSyncs; }
  static constexpr std::uint64_t kFirstLook = 5'000'000;  // at the threads

  const RecordOptions& options_;
  Target target_;
  Session session_;
  std::optional<Folder> folder_;      // the session's
  std::optional<Instance> instance_;  // the files below hold it open: they go before it
  EarlierSession earlier_;            // of its name
  UniqueFd marker_, lock_, signals_, timer_, pidfd_;
  std::optional<TriggerMatcher> watch_;  // until the streams have it
  std::optional<PageStreams> streams_;
  std::optional<InstanceWatch> others_;
  std::optional<DiskSync> disk_;  // before the files that it syncs
  std::optional<Command> command_;
  std::optional<QemuEvents> qemu_events_;  // of one that runs already
  QemuAdditions additions_;
  ThreadTable threads_;
  VmNames vm_names_;
  Cgroups cgroups_;
  mode_t umask_ = 022;  // the command's
  SyncLog sync_;
  std::uint64_t started_ = 0, ended_ = 0, deadline_ = 0, asked_at_ = 0;
  std::uint64_t next_look_ = 0;  // at the threads; 0: with the ticks
  unsigned asked_ = 0, ticks_ = 0;
  bool tracing_ = false, running_ = true, nagged_ = false, warned_ = false;
  std::optional<Error> broken_;  // what cut the recording short
};

}  // namespace trapline::record
