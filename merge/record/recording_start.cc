#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" {  // missing in the header of glibc 2.36
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/clock.h"
#include "merge/record/recording_run.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"

namespace trapline::record {
namespace {

constexpr unsigned kFollowTicks = 10;  // per second, if others read the session meanwhile

}  // namespace

Result<void> RecordingRun::prepare() {
  if (options_.flight && counts_cycles(options_.clock)) {
    return fail(ErrorKind::kUsage, "--flight: --clock {} does not count nanoseconds",
                options_.clock);
  }
  // Takes over the signals first, so that Ctrl-C leaves nothing behind.
  auto signals = open_signals(options_.flight ? SIGUSR1 : 0);
  if (!signals) return tl::unexpected(std::move(signals).error());
  signals_ = std::move(*signals);
  if (!options_.flight) {
    auto target = look_at_target(options_);
    if (!target) return tl::unexpected(std::move(target).error());
    target_ = std::move(*target);
  }
  auto ready = make_instance(options_);
  if (!ready) return tl::unexpected(std::move(ready).error());
  instance_.emplace(std::move(ready->instance));
  events_ = std::move(ready->events);
  if (ready->watch) watch_.emplace(std::move(*ready->watch));
  session_ = new_session(options_.trapline_version, options_.clock);
  for (const EventName& event : events_) session_.events.push_back(event.full_name());
  session_.pid = options_.pid;
  session_.buffer_kb = options_.buffer_kb;
  session_.instance = instance_->name();
  session_.start_real_ns = read_clock(ClockId::kReal);
  if (options_.flight) {
    auto flight = Flight::open(options_);
    if (!flight) return tl::unexpected(std::move(flight).error());
    flight_.emplace(std::move(*flight));
  }
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

Result<void> RecordingRun::open_session() {
  auto writer = SessionWriter::make(make_session(options_.folder), session_);
  if (!writer) return tl::unexpected(std::move(writer).error());
  writer_.emplace(std::move(*writer));
  if (const std::string text = writer_->earlier().make_room(); !text.empty()) say(text);
  const std::string marker = target_.user ? fmt::format("/proc/self/fd/{}", marker_.get())
                                          : instance_->path("trace_marker");
  auto additions =
      complete_command(options_, target_, marker, *instance_, writer_->folder().path());
  if (!additions) return tl::unexpected(std::move(additions).error());
  additions_ = std::move(*additions);
  session_.command = additions_.words;
  session_.added = additions_.added;
  session_.user = options_.user;
  session_.qemu_version = target_.facts.version;
  if (additions_.out_in_session) session_.clocks.emplace_back("uftrace.data", "mono");
  if (additions_.functions != Functions::kNone) session_.functions = name_of(additions_.functions);
  if (options_.snapshot) {
    session_.snapshot.emplace();
    session_.snapshot->on = options_.snapshot->trigger.text;
    session_.snapshot->around_ns = options_.snapshot->around_ns;
    if (additions_.out_in_session) session_.snapshot->whole_run.emplace_back("uftrace.data");
  }
  if (auto wrote = writer_->write(session_); !wrote) return wrote;
  copy_companions(writer_->folder(), options_, target_);
  if (additions_.out_in_session) {
    if (auto output = make_output(); !output) return output;
  }
  return reserve(writer_->folder());
}

// Makes the folder that the plugin writes into, as the command's own user.
Result<void> RecordingRun::make_output() {
  Folder& session = writer_->folder();
  auto out = session.make_folder("uftrace.data");
  if (!out || !target_.user) return out ? Result<void>{} : tl::unexpected(out.error());
  const std::optional<Identity>& owner = session.identity();
  if (!owner || owner->uid != target_.user->uid) {
    if (auto given = out->give_to({target_.user->uid, target_.user->gid, {}}); !given) return given;
  }
  // 0711: the user can reach uftrace.data in the session's folder, but cannot list that folder.
  return session.set_mode(0711);
}

Result<void> RecordingRun::open_reader() {
  if (writer_) {
    auto opened = open_page_files(*writer_, *instance_, options_, events_);
    if (!opened) return opened;
  }
  auto reader = PageReader::open(*instance_);
  if (!reader) return tl::unexpected(std::move(reader).error());
  reader_.emplace(std::move(*reader));
  if (flight_) {
    flight_->start(*reader_, std::move(watch_));
    sink_ = &*flight_;
    return {};
  }
  reader_->count_other_readers(*instance_);
  if (!watch_) return {};
  const SnapshotOptions& requested = *options_.snapshot;
  hits_.emplace(RingLimits{requested.around_ns, requested.ring_mb << 20, reader_->page_size(),
                           reader_->cpus()},
                std::move(*watch_), is_alive,
                [this](unsigned cpu, std::span<const std::byte> page) {
                  return writer_->files().page(cpu, page);
                });
  hits_->begin_with(*session_.snapshot);
  sink_ = &*hits_;
  return {};
}

// Gives up all rights except those that the run needs from here on: to see the names and VMs of
// other users' processes and the kernel's symbols for a snapshot's head, to signal the command, and
// the rights of the session's owner.
Result<void> RecordingRun::give_up_rights() {
  if (::geteuid() != 0) return {};
  std::vector<int> kept{CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE};
  if (flight_) kept.push_back(CAP_SYSLOG);
  if (command_) kept.push_back(CAP_KILL);  // the command may change its user
  const Folder& folder = flight_ ? flight_->folder() : writer_->folder();
  if (folder.identity()) kept.insert(kept.end(), {CAP_SETUID, CAP_SETGID});
  // At the end the session is renamed in the folder above, and an earlier session may be removed.
  // If these are not root's own, root needs CAP_DAC_OVERRIDE for that.
  const auto above = Folder::open_parent(options_.folder, folder.identity());
  struct stat status {};
  const bool is_own = above && ::fstat(above->first.fd(), &status) == 0 && status.st_uid == 0;
  const bool is_first = flight_ || writer_->earlier().text().empty();
  if (!folder.identity() && (!is_own || !is_first || target_.user))
    kept.push_back(CAP_DAC_OVERRIDE);
  return keep_capabilities(kept);
}

// Starts the thread that syncs. The command was forked before, while there was one thread.
Result<void> RecordingRun::start_syncing() {
  const Folder& folder = writer_->folder();
  auto session = folder.again();
  auto above = Folder::open_parent(options_.folder, folder.identity());
  auto raw = folder.open_folder("raw");
  auto itself = folder.again();
  if (!session || !itself) return tl::unexpected((session ? itself : session).error());
  std::vector<Folder> folders;
  if (raw) folders.push_back(std::move(*raw));
  folders.push_back(std::move(*itself));
  if (above) folders.push_back(std::move(above->first));  // best effort: it may be unreadable
  disk_.emplace(std::move(*session), std::move(folders));
  // Leaves the syncing thread out of the recording, as make_instance() does with the main thread.
  (void)instance_->control().append("set_event_notrace_pid", std::to_string(disk_->thread_id()));
  sync(false);
  return {};
}

Result<void> RecordingRun::start_command() {
  CommandOptions how{additions_.words,  target_.user,        marker_.get(),        "",
                     instance_->name(), instance_->path(""), instance_->tracefs(), umask_};
  const bool user_writes_calls = target_.user && in_markers(additions_.functions);
  if (target_.facts.tracing == QemuTracing::kFtrace || user_writes_calls) {
    how.shown_marker = instance_->path("trace_marker");
  } else if (target_.facts.top_level_marker) {
    // A QEMU with the log and the ftrace backend sends its events through the log, which is our
    // marker: its writes to the top-level marker would be the same events again.
    how.shown_marker = "/dev/null";
  }
  auto command = Command::fork(how);
  if (!command) return tl::unexpected(std::move(command).error());
  command_.emplace(std::move(*command));
  pidfd_.reset(::dup(command_->pidfd()));
  return {};
}

Result<void> RecordingRun::start_target() {
  if (!options_.command.empty()) return start_command();
  if (options_.pid == 0) return {};
  if (auto followed = follow_process(*instance_, options_.pid); !followed) return followed;
  pidfd_.reset(::pidfd_open(options_.pid, 0));
  if (!pidfd_) return fail("--pid {}: {}", options_.pid, std::strerror(errno));
  if (!qemu_events_) return {};
  if (auto attached = qemu_events_->attach(marker_.get()); !attached)
    say("warning: QEMU's events will be missing: " + attached.error().message);
  return {};
}

Result<void> RecordingRun::start() {
  ticks_a_second_ = options_.flight ? 1 : options_.follow ? kFollowTicks : kSyncsASecond;
  timer_ = open_ticks(kSecond / ticks_a_second_);
  if (auto started = start_target(); !started) return started;
  names_.threads = ThreadTable(command_ ? command_->pid() : options_.pid);
  names_.since = read_clock(ClockId::kMono);
  (void)look_at_threads();  // cpu.stat before the first event
  if (options_.command.empty())
    for (const std::string& warning : unseen_marker_writers(*instance_, options_.pid))
      warn(warning);
  say(beginning(options_, count_vms(options_)));
  if (auto given_up = give_up_rights(); !given_up) return given_up;
  if (writer_) {
    if (auto synced = start_syncing(); !synced) return synced;
  }
  others_.emplace(*instance_, events_, options_.clock);
  // A QEMU that we start gets the instance as an option, so it needs no copy of the top level.
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
  if (writer_) next_look_ = started_ + kFirstLook;
  if (options_.duration_ns) deadline_ = started_ + *options_.duration_ns;
  if (flight_) flight_->say_what_it_does();
  for (const std::string& added : additions_.added) say("added to QEMU's command: " + added);
  for (const std::string& warning : additions_.warnings) say("warning: " + warning);
  if (in_directory(additions_.functions) && options_.snapshot) {
    say("--functions: uftrace.data holds all of the run, not only what is around the hits");
  }
  return command_ ? command_->start() : Result<void>{};
}

// Cleans up if nothing was recorded: leaves no folder that looks like a session.
void RecordingRun::abandon() {
  if (writer_) writer_->discard();
  disk_.reset();
  reader_.reset();
  others_.reset();
  marker_.reset();
  qemu_events_.reset();
  command_.reset();
  flight_.reset();
  if (!instance_) return;
  if (auto removed = instance_->remove(); !removed) say(removed.error().message);
}

Result<int> RecordingRun::run() {
  umask_ = ::umask(077);  // only the owner can read the session
  Result<void> ready = prepare();
  if (ready && !flight_) ready = open_session();
  if (ready) ready = open_reader();
  if (ready) ready = start();
  if (!ready) {
    abandon();
    return tl::unexpected(std::move(ready).error());
  }
  if (writer_) {
    if (const std::string text = writer_->earlier().text(); !text.empty()) say(text);
  }
  loop();
  return finish();
}

}  // namespace trapline::record
