#include "merge/record/recorder.h"

#include <sys/stat.h>
#include <unistd.h>

extern "C" {  // glibc 2.36's header has none
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/clock.h"
#include "merge/record/flight_recorder.h"
#include "merge/record/held.h"
#include "merge/record/recording.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"
#include "merge/session/finish.h"

namespace trapline::record {

Result<void> Recording::prepare() {
  auto signals = open_signals();  // first: from here on Ctrl-C leaves nothing
  if (!signals) return tl::unexpected(std::move(signals).error());
  signals_ = std::move(*signals);
  auto target = look_at_target(options_);
  if (!target) return tl::unexpected(std::move(target).error());
  target_ = std::move(*target);
  auto ready = make_instance(options_);
  if (!ready) return tl::unexpected(std::move(ready).error());
  instance_.emplace(std::move(ready->instance));
  session_.enabled_events = std::move(ready->events);
  if (ready->watch) watch_.emplace(std::move(*ready->watch));
  if (options_.monitor != nullptr) {
    target_.user = user_of(options_.pid);
    qemu_events_.emplace(RunningQemu{options_.pid, options_.monitor}, options_.qemu_events);
    for (const std::string& warning : qemu_events_->look()) say("warning: " + warning);
  }
  auto marker = open_marker(*instance_, target_.user);
  if (!marker) return tl::unexpected(std::move(marker).error());
  marker_ = std::move(*marker);
  return {};
}

Result<void> Recording::open_session() {
  auto made = make_session(options_.folder);
  if (!made) return tl::unexpected(std::move(made).error());
  folder_.emplace(std::move(made->folder));
  lock_ = std::move(made->lock);
  earlier_ = std::move(made->earlier);
  if (const std::string text = earlier_.make_room(); !text.empty()) say(text);
  const std::string marker = target_.user ? fmt::format("/proc/self/fd/{}", marker_.get())
                                          : instance_->path("trace_marker");
  auto additions = complete_command(options_, target_, marker, *instance_, folder_->path());
  if (!additions) return tl::unexpected(std::move(additions).error());
  additions_ = std::move(*additions);
  session_.command = additions_.words;
  session_.added = additions_.added;
  session_.pid = options_.pid;
  session_.user = options_.user;
  session_.qemu_version = target_.facts.version;
  session_.trapline_version = options_.trapline_version;
  session_.clock = options_.clock;
  session_.plugin_calls = additions_.functions;
  session_.out_in_session = additions_.out_in_session;
  session_.buffer_kb = options_.buffer_kb;
  if (options_.snapshot) {
    session_.snapshot_on = options_.snapshot->trigger.text;
    session_.around_ns = options_.snapshot->around_ns;
  }
  session_.instance = instance_->name();
  session_.start_real_ns = read_clock(ClockId::kReal);
  if (auto wrote = write_session(*folder_, session_); !wrote) return wrote;
  copy_companions(*folder_, options_, target_);
  if (additions_.out_in_session) {
    if (auto output = make_output(); !output) return output;
  }
  return open_streams();
}

// The folder that the plugin writes into, as the command's own user.
Result<void> Recording::make_output() {
  auto out = folder_->make_folder("uftrace.data");
  if (!out || !target_.user) return out ? Result<void>{} : tl::unexpected(out.error());
  const std::optional<Identity>& owner = folder_->identity();
  if (!owner || owner->uid != target_.user->uid) {
    if (auto given = out->give_to({target_.user->uid, target_.user->gid, {}}); !given) return given;
  }
  // The user passes through the session's folder to it, and can list nothing else.
  return folder_->set_mode(0711);
}

Result<void> Recording::open_streams() {
  if (auto reserved = reserve(*folder_); !reserved) return reserved;
  auto files = make_page_files(*instance_, *folder_, options_, session_.enabled_events);
  if (!files) return tl::unexpected(std::move(files).error());
  auto streams = PageStreams::open(*instance_, std::move(*files));
  if (!streams) return tl::unexpected(std::move(streams).error());
  streams_.emplace(std::move(*streams));
  if (watch_) {
    const SnapshotWish& wish = *options_.snapshot;
    streams_->keep_hits(std::move(*watch_), wish.around_ns, wish.ring_mb << 20);
    watch_.reset();
  }
  return {};
}

// From here on this process has a second thread: the command is forked before.
Result<void> Recording::start_syncing() {
  auto session = folder_->again();
  auto above = Folder::open_parent(options_.folder, folder_->identity());
  auto raw = folder_->open_folder("raw");
  auto itself = folder_->again();
  if (!session || !itself) return tl::unexpected((session ? itself : session).error());
  std::vector<Folder> folders;
  if (raw) folders.push_back(std::move(*raw));
  folders.push_back(std::move(*itself));
  if (above) folders.push_back(std::move(above->first));  // best effort: it may be unreadable
  disk_.emplace(std::move(*session), std::move(folders));
  // As make_instance() does with this one.
  (void)instance_->control().append("set_event_notrace_pid", std::to_string(disk_->thread_id()));
  disk_->ask(streams_->sync_job());
  return {};
}

Result<void> Recording::start() {
  timer_ = open_ticks(kSecond / ticks_a_second());
  if (!options_.command.empty()) {
    CommandOptions how{additions_.words,  target_.user,        marker_.get(),        "",
                       instance_->name(), instance_->path(""), instance_->tracefs(), umask_};
    // With both backends the events come through the log.
    const bool user_writes_calls = target_.user && in_markers(additions_.functions);
    if (target_.facts.tracing == QemuTracing::kFtrace || user_writes_calls) {
      how.shown_marker = instance_->path("trace_marker");
    } else if (target_.facts.top_level_marker) {
      how.shown_marker = "/dev/null";
    }
    auto command = Command::fork(how);
    if (!command) return tl::unexpected(std::move(command).error());
    command_.emplace(std::move(*command));
    pidfd_.reset(::dup(command_->pidfd()));
    threads_ = ThreadTable(command_->pid());
  } else if (options_.pid != 0) {
    if (auto followed = follow_process(*instance_, options_.pid); !followed) return followed;
    pidfd_.reset(::pidfd_open(options_.pid, 0));
    if (!pidfd_) return fail("--pid {}: {}", options_.pid, std::strerror(errno));
    if (qemu_events_) {
      if (auto attached = qemu_events_->attach(marker_.get()); !attached)
        say("warning: QEMU's events will be missing: " + attached.error().message);
    }
    threads_ = ThreadTable(options_.pid);
  }
  (void)look_at_threads();  // cpu.stat before the first event
  if (auto synced = start_syncing(); !synced) return synced;
  if (options_.command.empty()) {
    session_.warnings = unseen_marker_writers(*instance_, options_.pid);
    for (const std::string& warning : session_.warnings) say("warning: " + warning);
  }
  say(beginning(options_, count_vms(options_)));
  others_.emplace(*instance_, session_.enabled_events, options_.clock);
  // A QEMU of ours is told of the instance.
  if (auto on = instance_->switch_on(!target_.qemu); !on) return on;
  others_->accept();
  tracing_ = true;
  if (qemu_events_) {
    if (auto switched = qemu_events_->switch_on(); !switched)
      say("warning: QEMU's events will be missing: " + switched.error().message);
  }
  if (!write_sync()) {
    return fail("{}: {}", instance_->path("trace_marker"), std::strerror(errno));
  }
  started_ = read_clock(ClockId::kMono);
  next_look_ = started_ + kFirstLook;
  if (options_.duration_ns) deadline_ = started_ + *options_.duration_ns;
  for (const std::string& added : additions_.added) say("added to QEMU's command: " + added);
  for (const std::string& warning : additions_.warnings) say("warning: " + warning);
  if (in_directory(additions_.functions) && options_.snapshot) {
    say("--functions: uftrace.data holds all of the run, not only what is around the hits");
  }
  return command_ ? command_->start() : Result<void>{};
}

Result<int> Recording::run() {
  umask_ = ::umask(077);  // what the session holds is its owner's alone
  Result<void> ready = prepare();
  if (ready) ready = open_session();
  if (ready) ready = start();
  if (!ready) {
    // Nothing was recorded: no folder that looks like a session.
    if (folder_) (void)remove_session_folder(std::move(*folder_));
    disk_.reset();
    streams_.reset();
    others_.reset();
    marker_.reset();
    qemu_events_.reset();
    command_.reset();
    if (instance_) {
      if (auto removed = instance_->remove(); !removed) say(removed.error().message);
    }
    return tl::unexpected(std::move(ready).error());
  }
  if (const std::string text = earlier_.text(); !text.empty()) say(text);
  loop();
  return finish();
}

Result<Functions> parse_functions(std::string_view text) {
  for (const Functions functions : {Functions::kUftrace, Functions::kFtrace, Functions::kBoth}) {
    if (text == name_of(functions)) return functions;
  }
  return fail(ErrorKind::kUsage, "--functions={}: one of uftrace, ftrace, both is expected",
              printable(text));
}

std::string_view name_of(Functions functions) {
  constexpr std::string_view kNames[] = {"none", "uftrace", "ftrace", "both"};
  return kNames[static_cast<std::size_t>(functions)];
}

Result<int> record(const RecordOptions& options) {
  if (options.from_instance) return record_held(options);
  return options.flight ? FlightRecorder(options).run() : Recording(options).run();
}

}  // namespace trapline::record
