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
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
extern "C" {  // missing in the header of glibc 2.36
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
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
#include "merge/record/setup.h"
#include "merge/record/snapshot.h"
#include "merge/record/summary.h"
#include "merge/record/sync_log.h"
#include "merge/record/target.h"
#include "merge/record/vm_names.h"

namespace trapline::record {
namespace {

constexpr std::uint64_t kGrace = 10 * kSecond;
constexpr unsigned kRoundsAtOnce = 64;  // before signals are checked again
constexpr unsigned kFollowTicks = 10;   // per second, if others read the session meanwhile
constexpr unsigned kFlightLook = 5;     // ticks between checks of names
// A flight keeps the names of dead threads for at least this time.
constexpr std::uint64_t kNamesKept = 3600 * kSecond;

class RecordingRun {
 public:
  explicit RecordingRun(const RecordOptions& options) : options_(options) {}

  [[nodiscard]] Result<int> run() {
    umask_ = ::umask(077);  // only the owner can read the session
    Result<void> ready = prepare();
    if (ready && !flight_) ready = open_session();
    if (ready) ready = open_reader();
    if (ready) ready = options_.from_instance ? take_held() : start();
    if (!ready) {  // leaves no folder that looks like a session
      if (writer_) writer_->discard();
      return tl::unexpected(std::move(ready).error());
    }
    if (writer_) {
      if (const std::string text = writer_->earlier().text(); !text.empty()) say(text);
    }
    if (!options_.from_instance) loop();
    return finish();
  }

 private:
  [[nodiscard]] Result<void> prepare() {
    if (options_.flight && counts_cycles(options_.clock)) {
      return fail(ErrorKind::kUsage, "--flight: --clock {} does not count nanoseconds",
                  options_.clock);
    }
    // Takes over the signals first, so that Ctrl-C leaves nothing behind.
    if (!options_.from_instance) {
      auto taken = assign(signals_, open_signals(options_.flight ? SIGUSR1 : 0));
      if (!taken) return taken;
    }
    if (!options_.flight) {
      if (auto looked = assign(target_, look_at_target(options_)); !looked) return looked;
    }
    auto ready = options_.from_instance ? attach_instance(options_) : make_instance(options_);
    if (!ready) return tl::unexpected(std::move(ready).error());
    instance_.emplace(std::move(ready->instance));
    events_ = std::move(ready->events);
    if (ready->watch) watch_.emplace(std::move(*ready->watch));
    session_ = new_session(options_.trapline_version,
                           options_.from_instance ? instance_->control().clock() : options_.clock);
    session_.instance = instance_->name();
    session_.start_real_ns = read_clock(ClockId::kReal);
    if (options_.from_instance) return open_held();
    for (const EventName& event : events_) session_.events.push_back(event.full_name());
    session_.pid = options_.pid;
    session_.buffer_kb = options_.buffer_kb;
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
    return assign(marker_, open_marker(*instance_, target_.user));
  }

  // Opens the pages of the instance of --from-instance. Returns an Error if the instance holds
  // none; then no session is made.
  [[nodiscard]] Result<void> open_held() {
    const FtraceControl& control = instance_->control();
    for (const EventName& event : enabled_events(control.get("set_event").value_or("")))
      session_.events.push_back(event.full_name());
    // buffer_size_kb contains "X" if the CPUs' buffers have different sizes: 0 is stored then.
    const std::string kb = control.get("buffer_size_kb").value_or("");
    session_.buffer_kb = parse_number(trimmed(kb)).value_or(0);
    session_.end_real_ns = session_.start_real_ns;
    session_.ended_by = "held";
    if (auto opened = assign(reader_, PageReader::open(*instance_)); !opened) return opened;
    std::uint64_t entries = 0;
    std::vector<std::uint64_t> bytes;
    for (const CpuLoss& loss : reader_->losses(*instance_, stats_)) {
      entries += loss.unread;
      const std::string size =
          control.get(fmt::format("per_cpu/cpu{}/buffer_size_kb", loss.cpu)).value_or("");
      const auto of_cpu = parse_number(size.substr(0, size.find_first_not_of("0123456789")));
      bytes.push_back(of_cpu.value_or(0) * 1024);
    }
    stats_.clear();
    if (entries == 0) return fail("{}: holds no events", instance_->path(""));
    reader_->take_at_most(std::move(bytes));
    return {};
  }

  [[nodiscard]] Result<void> open_session() {
    auto made = assign(writer_, SessionWriter::make(make_session(options_.folder), session_));
    if (!made) return made;
    if (const std::string text = writer_->earlier().make_room(); !text.empty()) say(text);
    const std::string marker = target_.user ? fmt::format("/proc/self/fd/{}", marker_.get())
                                            : instance_->path("trace_marker");
    auto completed = assign(additions_, complete_command(options_, target_, marker, *instance_,
                                                         writer_->folder().path()));
    if (!completed) return completed;
    session_.command = additions_.words;
    session_.added = additions_.added;
    session_.user = options_.user;
    session_.qemu_version = target_.facts.version;
    if (has_output()) session_.clocks.emplace_back("uftrace.data", "mono");
    if (options_.functions != Functions::kNone) session_.functions = name_of(options_.functions);
    if (options_.snapshot) {
      session_.snapshot.emplace();
      session_.snapshot->on = options_.snapshot->trigger.text;
      session_.snapshot->around_ns = options_.snapshot->around_ns;
      if (has_output()) session_.snapshot->whole_run.emplace_back("uftrace.data");
    }
    if (auto wrote = writer_->write(session_); !wrote) return wrote;
    copy_companions(writer_->folder(), options_, target_);
    if (has_output()) {
      if (auto output = make_output(); !output) return output;
    }
    return reserve(writer_->folder());
  }

  // Makes the folder that the plugin writes into, as the command's own user.
  [[nodiscard]] Result<void> make_output() {
    Folder& session = writer_->folder();
    auto out = session.make_folder("uftrace.data");
    if (!out || !target_.user) return out ? Result<void>{} : tl::unexpected(out.error());
    const std::optional<Identity>& owner = session.identity();
    if (!owner || owner->uid != target_.user->uid) {
      if (auto given = out->give_to({target_.user->uid, target_.user->gid, {}}); !given)
        return given;
    }
    // 0711: the user can reach uftrace.data in the session's folder, but cannot list that folder.
    return session.set_mode(0711);
  }

  [[nodiscard]] Result<void> open_reader() {
    if (writer_) {
      auto opened = open_page_files(*writer_, *instance_, options_, events_);
      if (!opened) return opened;
    }
    if (writer_ && !watch_) sinks_.push_back(&writer_->files());
    if (reader_) return {};
    if (auto opened = assign(reader_, PageReader::open(*instance_)); !opened) return opened;
    if (flight_)
      sinks_.push_back(&flight_->start(*reader_));
    else
      reader_->count_other_readers(*instance_);
    if (!flight_ && !counts_cycles(options_.clock)) sinks_.push_back(&sync_);
    if (!watch_) return {};
    RingLimits limits{options_.snapshot->around_ns, options_.snapshot->ring_mb << 20,
                      reader_->page_size(), reader_->cpus()};
    if (flight_) limits.keep_ns = 0, limits.ring_bytes = Flight::kFinderBytes;
    hits_.emplace(limits, std::move(*watch_), is_alive,
                  [this](unsigned cpu, std::span<const std::byte> page) {
                    return writer_ ? writer_->files().page(cpu, page) : Result<void>{};
                  });
    if (writer_) hits_->begin_with(*session_.snapshot);
    sinks_.push_back(&*hits_);
    return {};
  }

  // Gives up all rights except those that the run needs from here on: to see the names and VMs of
  // other users' processes and the kernel's symbols for a snapshot's head, to signal the command,
  // and the rights of the session's owner.
  [[nodiscard]] Result<void> give_up_rights() {
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
  [[nodiscard]] Result<void> start_syncing() {
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

  [[nodiscard]] Result<void> start_command() {
    CommandOptions how{additions_.words,  target_.user,        marker_.get(),        "",
                       instance_->name(), instance_->path(""), instance_->tracefs(), umask_};
    const bool user_writes_calls = target_.user && in_markers(options_.functions);
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

  [[nodiscard]] Result<void> start_target() {
    if (!options_.command.empty()) return start_command();
    if (options_.pid == 0) return {};
    if (auto followed = follow_process(*instance_, options_.pid); !followed) return followed;
    pidfd_.reset(::pidfd_open(options_.pid, 0));
    if (!pidfd_)
      return fail("--pid {}: {} (a thread's id? give that of its process)", options_.pid,
                  std::strerror(errno));
    if (!qemu_events_) return {};
    if (auto attached = qemu_events_->attach(marker_.get()); !attached)
      say("warning: QEMU's events will be missing: " + attached.error().message);
    return {};
  }

  [[nodiscard]] Result<void> start() {
    ticks_a_second_ = options_.flight ? 1 : options_.follow ? kFollowTicks : kSyncsASecond;
    next_tick_ = read_clock(ClockId::kMono) + kSecond / ticks_a_second_;
    if (auto started = start_target(); !started) return started;
    names_.threads = TracedThreads(command_ ? command_->pid() : options_.pid);
    names_.since = read_clock(ClockId::kMono);
    (void)look_at_threads(false);  // reads cpu.stat before the first event
    if (options_.command.empty())
      for (const std::string& warning : unseen_marker_writers(*instance_, options_.pid))
        warn(warning);
    say(beginning(options_, count_vms(options_)));
    if (auto given_up = give_up_rights(); !given_up) return given_up;
    if (writer_) {
      if (auto synced = start_syncing(); !synced) return synced;
    }
    others_.emplace(*instance_, events_, options_.clock);
    if (!flight_) counts_.begin(names_.threads.threads());
    note_edge();
    // Before tracing is on, as QEMU may take seconds to answer, in which nobody reads the buffers.
    if (qemu_events_) {
      if (auto switched = qemu_events_->switch_on(); !switched)
        say("warning: QEMU's events will be missing: " + switched.error().message);
    }
    // A QEMU that we start writes into the instance, so the top-level marker need not be copied
    // into it.
    if (auto on = instance_->switch_on(!target_.qemu); !on) return on;
    others_->accept();
    tracing_ = true;
    if (!sync_.write_series(marker_.get())) {
      return fail("{}: {}", instance_->path("trace_marker"), std::strerror(errno));
    }
    started_ = read_clock(ClockId::kMono);
    take();  // the series, before its page is full
    if (writer_) next_look_ = started_ + kFirstLook;
    if (options_.duration_ns) deadline_ = started_ + *options_.duration_ns;
    if (flight_) flight_->say_what_it_does();
    for (const std::string& added : additions_.added) say("added to QEMU's command: " + added);
    for (const std::string& warning : additions_.warnings) say("warning: " + warning);
    if (has_output() && options_.snapshot) {
      say("--functions: uftrace.data holds all of the run, not only what is around the hits");
    }
    return command_ ? command_->start() : Result<void>{};
  }

  void warn(const std::string& sentence) {
    session_.warnings.push_back(sentence);
    say("warning: " + sentence);
  }

  // Stores the hits. Returns whether there are more than before.
  [[nodiscard]] bool note_hits() {
    if (!hits_) return false;
    const SnapshotFacts& facts = hits_->facts();
    if (flight_) {
      flight_->look_for_hit(facts);
      return false;
    }
    const std::size_t before = session_.snapshot->first_hits.size();
    session_.snapshot = facts;
    return facts.first_hits.size() != before;
  }

  // Lets the kernel move a CPU's full pages into the files.
  void move_full(unsigned cpu) {
    if (!tracing_) return;
    if (auto moved = reader_->splice(cpu, writer_->files()); !moved) cut_short(moved.error());
  }

  // Takes all pages that exist on all CPUs, also those that are still being filled.
  void take() {
    if (!tracing_) return;
    const auto taken = reader_->rounds(sinks_, kRoundsAtOnce);
    if (!taken) return cut_short(taken.error());
    if (flight_) (void)note_hits();
  }

  // Takes all remaining pages after tracing was switched off. If the recording was cut short, takes
  // what is in memory: writes it if possible, and counts it otherwise.
  void take_last() {
    Result<bool> taken = true;
    const auto has_left = [this] {
      std::vector<std::string> stats;
      return std::ranges::any_of(reader_->losses(*instance_, stats),
                                 [](const CpuLoss& cpu) { return cpu.unread != 0; });
    };
    // A read that fails with EAGAIN does not prove that nothing is left.
    constexpr unsigned kTries = 3;
    for (unsigned tries = 0; !broken_ && taken && tries < kTries; ++tries) {
      taken = reader_->rounds(sinks_, ~0u);
      if (!has_left()) break;
    }
    if (auto finished = hits_ ? hits_->finish() : Result<void>{}; !finished && taken)
      taken = tl::unexpected(std::move(finished).error());
    if (taken || broken_) return;
    broken_ = taken.error();
    session_.ended_by = broken_->message;
    say(broken_->message + "; the recording lacks its end");
  }

  // Takes the pages that the instance of --from-instance holds. The Error: nothing was taken. A
  // page that cannot be written is lost; the pages after it then stay in the instance.
  [[nodiscard]] Result<void> take_held() {
    const auto taken = reader_->rounds(sinks_, ~0u);
    if (!taken && writer_->files().written() == 0) return tl::unexpected(taken.error());
    if (!taken) {
      broken_ = taken.error();
      session_.ended_by = broken_->message;
    }
    (void)look_at_threads();
    count_losses();
    return {};
  }

  // Ends the recording; the command goes on.
  void cut_short(const Error& error) {
    broken_ = error;
    session_.ended_by = error.message;
    stop_tracing();
    if (flight_) {
      running_ = false;
      return;
    }
    const bool is_there = check_presence(writer_->folder()).has_value();
    auto closed = close_session();
    if (!closed && is_there) say(closed.error().message);
    const std::string stopped =
        fmt::format("{}; recording has stopped{}", error.message,
                    is_there ? ", what came before is in " + writer_->folder().path() : "");
    if (command_ && !command_->reap()) {
      say(stopped + "; the command goes on");
    } else {
      if (is_there) say(stopped);  // otherwise finish() says why
      running_ = false;
    }
  }

  // Returns whether another process has changed the instance since the last call.
  [[nodiscard]] bool look_at_instance() {
    const std::vector<std::string> sentences = others_->look();
    session_.changes = others_->changes();
    for (const std::string& sentence : sentences) warn(sentence);
    return !sentences.empty();
  }

  // Returns whether a thread of a virtual machine is new or has a new name. Also keeps the names of
  // other threads. The kernel remembers only the latest, so it is asked for them each second and at
  // the end. A flight keeps names for one to two hours.
  [[nodiscard]] bool look_at_threads(bool at_others = true) {
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (flight_ && now - names_.since > kNamesKept)
      older_ = std::exchange(names_, Names{TracedThreads(options_.pid), {}, now}).threads;
    if (at_others) {
      auto saved = read_text(instance_->tracefs() + "/saved_cmdlines");
      if (saved) names_.threads.add_names(*saved);
    }
    const bool new_threads = names_.threads.update();
    if (!flight_ && !options_.from_instance) cgroups_.update(names_.threads.threads());
    return names_.vms.update(names_.threads.threads()) || new_threads;
  }

  void note_edge() {
    if (!options_.events.faults || flight_) return;
    session_.edges.push_back(edge_now(names_.threads.threads(), options_.monitor.get()));
  }

  // Fills in the threads, VMs, cgroups and sync records known so far.
  void describe(SessionJson& session) const {
    session.threads = names_.threads.in_session();
    counts_.add_to(session.threads, command_ || options_.pid != 0);
    session.vms = names_.vms.vms(names_.threads.threads());
    session.cgroups = cgroups_.list();
    session.sync = sync_.brackets();
  }

  [[nodiscard]] std::string cmdlines(const TracedThreads& threads) const {
    if (options_.from_instance) return threads.cmdlines();
    // Names this process too, because its sync records are in the recording.
    return fmt::format("{} trapline\n", ::getpid()) + threads.cmdlines();
  }

  // Syncs written data to the disk; with `texts` also the small files with their present content.
  void sync(bool texts) {
    if (const auto failed = disk_->error()) return cut_short(*failed);
    SyncJob job{writer_->files().files(), writer_->files().sizes(), {}};
    if (texts) {
      describe(session_);
      job.texts = {{"raw/cmdlines", cmdlines(names_.threads)}, {"session.json", to_text(session_)}};
    }
    disk_->ask(std::move(job));
  }

  void on_tick(std::uint64_t now) {
    const std::uint64_t period = kSecond / ticks_a_second_;
    next_tick_ += ((now - next_tick_) / period + 1) * period;
    if (!tracing_) return;
    ++ticks_;
    if (flight_) {
      (void)look_at_instance();
      if (ticks_ % kFlightLook == 0) (void)look_at_threads();
      (void)sync_.write_series(marker_.get());
      // With --snapshot-on, a page that fills slowly may contain a hit; otherwise it can wait.
      if (hits_) take();
      return;
    }
    const bool is_second = ticks_ % ticks_a_second_ == 0;
    // Full pages first: then the pages of the series below pass through this process.
    for (unsigned cpu = 0; moves_pages() && cpu < reader_->cpus(); ++cpu) move_full(cpu);
    if (!tracing_) return;
    const bool meddled = is_second && look_at_instance();
    if (is_second) (void)sync_.write_series(marker_.get());
    take();
    if (!tracing_) return;
    if (!is_second) {
      if (ticks_ % (ticks_a_second_ / kSyncsASecond) == 0) sync(false);
      return;
    }
    const bool hit = note_hits();
    sync(look_at_threads() || meddled || hit);
  }

  void ask_to_end(int signal, const char* why) {
    if (session_.ended_by.empty()) session_.ended_by = why;
    if (!command_) {
      running_ = false;
      return;
    }
    command_->signal(signal);
    end_requested_at_ = read_clock(ClockId::kMono);
    ++end_requests_;
  }

  void on_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    const int number = static_cast<int>(info.ssi_signo);
    if (flight_ && number == SIGUSR1) {
      (void)snapshot("signal", fmt::format("SIGUSR1 of process {}", info.ssi_pid));
      return;
    }
    // A terminal sends Ctrl-C to the command too, and two SIGHUPs when it is closed.
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    const bool kills = end_requests_ > 0 && number != SIGHUP;
    ask_to_end(kills ? SIGKILL : from_terminal ? 0 : number, "signal");
  }

  void on_end_of_target() {
    if (command_ && !command_->reap()) return;
    if (session_.ended_by.empty()) session_.ended_by = command_ ? "command" : "process";
    running_ = false;
  }

  void look_at_times() {
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (flight_ && flight_->due() != 0 && now >= flight_->due())
      (void)snapshot("expression", flight_->take_due());
    if (deadline_ != 0 && now >= deadline_) {
      deadline_ = 0;
      if (end_requests_ == 0) ask_to_end(SIGTERM, "duration");
    }
    if (end_requests_ > 0 && !nagged_ && now >= end_requested_at_ + kGrace) {
      nagged_ = true;
      say("the command does not end; Ctrl-C (or SIGTERM) once more kills it");
    }
  }

  // Lists the threads at doubling intervals during the first second: a short run may have ended
  // before a tick lists them.
  void look_early() {
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (next_look_ == 0 || now < next_look_) return;
    (void)look_at_threads(false);
    const std::uint64_t age = now - started_;
    next_look_ = age < kSecond ? now + std::max(age, kFirstLook) : 0;
  }

  void loop() {
    enum : std::size_t { kSignals, kTarget, kRequests, kPages };
    std::vector<pollfd> polled(kPages + reader_->cpus());
    const auto is_ready = [](const pollfd& file) { return file.revents != 0; };
    while (running_) {
      polled[kSignals] = {signals_.get(), POLLIN, 0};
      polled[kTarget] = {pidfd_.get(), POLLIN, 0};
      polled[kRequests] = {flight_ ? flight_->control().fd() : -1, POLLIN, 0};
      for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu)
        polled[kPages + cpu] = {tracing_ ? reader_->fd(cpu) : -1, POLLIN, 0};
      const int wait = wait_ms({next_tick_, deadline_, next_look_, flight_ ? flight_->due() : 0});
      if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) break;
      for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu) {
        if (!is_ready(polled[kPages + cpu])) continue;
        if (!moves_pages()) {
          take();
          break;
        }
        move_full(cpu);
      }
      if (const std::uint64_t now = read_clock(ClockId::kMono); now >= next_tick_) on_tick(now);
      if (is_ready(polled[kRequests])) {
        flight_->control().serve(
            [this](const std::string& why) { return snapshot("command", why); });
      }
      if (is_ready(polled[kSignals])) on_signal();
      if (is_ready(polled[kTarget])) on_end_of_target();
      look_at_times();
      look_early();
    }
  }

  Result<std::string> snapshot(const std::string& asked_by, const std::string& why) {
    if (auto soon = flight_->check_spacing(); !soon) {
      // --snapshot-on may find a hit at each exit, so its refused requests are not reported.
      if (asked_by != "expression") say(soon.error().message);
      return tl::unexpected(std::move(soon).error());
    }
    auto path = write_snapshot({.asked_by = asked_by, .why = why});
    if (!path) say("no snapshot: " + path.error().message);
    return path;
  }

  [[nodiscard]] Result<std::string> write_snapshot(SessionFlight requested) {
    (void)sync_.write_series(marker_.get());
    (void)look_at_instance();
    (void)look_at_threads();
    const auto complete = flight_->read_all(*reader_, sinks_);
    if (!complete) return tl::unexpected(complete.error());
    const Window cut = flight_->cut(*complete);
    SessionJson session = session_;
    describe(session);
    session.sync.clear();  // the recording itself has the sync records
    session.end_real_ns = read_clock(ClockId::kReal);
    session.start_real_ns = session.end_real_ns - (cut.to_ns - cut.from_ns);
    session.ended_by = "snapshot";
    session.flight = std::move(requested);
    std::erase_if(session.changes, [&cut](const SessionChange& one) {
      return one.to_ns != 0 && one.to_ns < cut.from_ns;
    });
    TracedThreads threads = names_.threads;
    if (older_) threads.add_missing(*older_);
    session.threads = threads.in_session();
    if (const std::string warning = threads.warning(); !warning.empty()) {
      session.warnings.push_back(warning);
      say("warning: " + warning);
    }
    return flight_->write(*instance_, events_, cut, session, cmdlines(threads));
  }

  // Writes the last sync records, takes the last pages and counts, and stops tracing.
  void stop_tracing() {
    if (!tracing_) return;
    tracing_ = false;
    (void)look_at_instance();
    if (!broken_ && writer_) (void)sync_.write_series(marker_.get());
    (void)instance_->control().switch_off();
    session_.end_real_ns = read_clock(ClockId::kReal);
    ended_ = read_clock(ClockId::kMono);
    if (qemu_events_)
      for (const std::string& left : qemu_events_->stop()) say("warning: " + left);
    if (flight_) return;
    counts_.end(names_.threads.threads());
    note_edge();
    (void)look_at_threads();
    take_last();
    // Data that cannot be synced now is cut off, like data that failed before.
    disk_->ask({writer_->files().files(), writer_->files().sizes(), {}});
    disk_->stop();
    const bool is_there = check_presence(writer_->folder()).has_value();
    if (const auto failed = disk_->error(); failed && is_there) {
      const std::uint64_t dropped = writer_->files().keep_only(disk_->durable());
      say(fmt::format("{:.1f} MiB of events that were not known to be on the disk are left out",
                      mib(dropped)));
      if (!broken_) say(failed->message + "; the recording lacks its end");
      if (!broken_) broken_ = failed;
      session_.ended_by = broken_->message;
    }
    (void)note_hits();
    count_losses();
  }

  void count_losses() {
    session_.losses = reader_->losses(*instance_, stats_);
    for (CpuLoss& loss : session_.losses) {
      const PageFiles& files = writer_->files();
      loss.unwritten_pages =
          hits_ ? hits_->unwritten_pages(loss.cpu) : files.unwritten(loss.cpu) / files.page_size();
      loss.unwritten_pages += files.dropped(loss.cpu) / files.page_size();
      if (options_.from_instance && !broken_) loss.unread = 0;  // the unread events came meanwhile
    }
    if (const std::string warning = names_.threads.warning(); !warning.empty()) warn(warning);
  }

  [[nodiscard]] Result<void> close_session() {
    reader_->close();
    describe(session_);
    auto sealed = writer_->seal(session_, cmdlines(names_.threads),
                                cpu_stats(session_.losses, stats_), broken_.has_value());
    if (!session_.closed) return sealed;
    if (auto moved = writer_->make_way(); !moved)
      say(fmt::format("warning: {}; the recording is {}", moved.error().message,
                      writer_->folder().path()));
    return sealed;
  }

  [[nodiscard]] Result<int> finish() {
    stop_tracing();
    Result<void> closed;
    if (command_) session_.exit_status = command_->reap();
    if (writer_ && !session_.closed) {
      closed = close_session();
    } else if (command_) {
      (void)writer_->write(session_);
    }
    reader_->close();
    marker_.reset();
    const bool watched = others_ && others_->sees_all();
    others_.reset();
    flight_.reset();
    if (auto removed = instance_->remove(); !removed) say(removed.error().message);
    if (!closed) return tl::unexpected(std::move(closed).error());
    if (!writer_) return broken_ ? Result<int>(tl::unexpected(*broken_)) : 0;
    const std::uint64_t written = writer_->files().written();
    const Outcome outcome{.folder = writer_->folder(),
                          .written = written,
                          .went_by = hits_ ? reader_->read() : written,
                          .whole = !broken_,
                          .took_ns = ended_ - started_,
                          .watched = watched};
    const std::vector<std::string> lines =
        options_.from_instance ? summary_of_held(session_, outcome, instance_->control())
                               : summary(session_, outcome);
    for (const std::string& line : lines) say(line);
    if (options_.from_instance && broken_) {
      return fail("{}; what came before is in {}, and the rest is still in the instance",
                  broken_->message, writer_->folder().path());
    }
    const int status = session_.exit_status.value_or(0);
    return status == 0 && broken_ ? 1 : status;
  }

  // Returns whether the kernel moves full pages into the files. Otherwise all pass through this
  // process.
  [[nodiscard]] bool moves_pages() const { return !flight_ && !hits_; }
  // Returns whether the plugin writes its directory into the session's folder.
  [[nodiscard]] bool has_output() const { return in_directory(options_.functions); }
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
  UniqueFd marker_, signals_, pidfd_;
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
  // next_look_: when to list the threads again; 0: at the next tick
  std::uint64_t next_tick_ = 0, next_look_ = 0;
  unsigned end_requests_ = 0, ticks_ = 0, ticks_a_second_ = 1;
  bool tracing_ = false, running_ = true, nagged_ = false;
  std::optional<Error> broken_;     // what cut the recording short
  std::vector<std::string> stats_;  // by CPU, after tracing has ended
};

}  // namespace

Result<int> record(const RecordOptions& options) { return RecordingRun(options).run(); }

}  // namespace trapline::record
