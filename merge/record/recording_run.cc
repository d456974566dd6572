#include "merge/record/recording_run.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"

namespace trapline::record {
namespace {

constexpr std::uint64_t kGrace = 10 * kSecond;
constexpr unsigned kRoundsAtOnce = 64;  // before signals are checked again
constexpr unsigned kFlightLook = 5;     // ticks between checks of names
// A flight keeps the names of dead threads for at least this time.
constexpr std::uint64_t kNamesKept = 3600 * kSecond;

}  // namespace

void RecordingRun::warn(const std::string& sentence) {
  session_.warnings.push_back(sentence);
  say("warning: " + sentence);
}

bool RecordingRun::write_sync() {
  const int cpu = ::sched_getcpu();
  if (!sync_.write_series(marker_.get())) return false;
  if (counts_cycles(options_.clock) || sink_ != nullptr || sync_.brackets().empty()) return true;
  stamps_.expect(writer_->files(), sync_.brackets().back().series, cpu, ::sched_getcpu());
  return true;
}

// Stores what was found in the pages: stamps of sync records, hits.
void RecordingRun::note_pages() {
  if (!sink_)
    for (const SyncStamp& sync : stamps_.find(writer_->files())) sync_.stamp(sync);
  if (hits_) {
    for (const SyncStamp& sync : hits_->take_stamps()) sync_.stamp(sync);
    session_.snapshot = hits_->facts();
  }
  const SnapshotFacts* facts = hits_ ? &hits_->facts() : flight_ ? flight_->found() : nullptr;
  if (facts != nullptr && !facts->cannot_hit.empty() && !std::exchange(warned_, true)) {
    say(fmt::format("warning: --snapshot-on '{}': {}", options_.snapshot->trigger.text,
                    facts->cannot_hit));
  }
  if (flight_) flight_->look_for_hit();
}

void RecordingRun::take(std::optional<unsigned> cpu) {
  if (!tracing_) return;
  Result<bool> taken = false;
  if (sink_) {
    taken = reader_->rounds(*sink_, kRoundsAtOnce);
    if (taken && flight_) note_pages();
  } else if (cpu) {
    taken = reader_->splice(*cpu, writer_->files(), false);
  } else {
    for (unsigned each = 0; taken && each < reader_->cpus(); ++each)
      taken = reader_->splice(each, writer_->files(), true);
  }
  if (!taken) cut_short(taken.error());
}

// Takes all remaining pages after tracing was switched off. If the recording was cut short, takes
// what is in memory: writes it if possible, and counts it otherwise.
void RecordingRun::take_last() {
  Result<bool> taken = true;
  if (!broken_ && hits_) taken = reader_->rounds(*hits_, ~0u);
  for (unsigned cpu = 0; !broken_ && !sink_ && taken && cpu < reader_->cpus(); ++cpu) {
    do taken = reader_->splice(cpu, writer_->files(), true);
    while (taken && !*taken);
  }
  if (auto finished = hits_ ? hits_->finish() : Result<void>{}; !finished && taken)
    taken = tl::unexpected(std::move(finished).error());
  if (taken || broken_) return;
  broken_ = taken.error();
  session_.ended_by = broken_->message;
  say(broken_->message + "; the recording lacks its end");
}

// Ends the recording; the command goes on.
void RecordingRun::cut_short(const Error& error) {
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
bool RecordingRun::look_at_instance() {
  const std::vector<std::string> sentences = others_->look();
  session_.changes = others_->changes();
  for (const std::string& sentence : sentences) warn(sentence);
  return !sentences.empty();
}

// Returns whether a thread of a virtual machine is new or has a new name. Of all other threads,
// keeps the names that the kernel remembers. A flight keeps names for one to two hours.
bool RecordingRun::look_at_threads() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (flight_ && now - names_.since > kNamesKept)
    older_ = std::exchange(names_, Names{ThreadTable(options_.pid), {}, now}).threads;
  auto saved = read_text(instance_->tracefs() + "/saved_cmdlines");
  if (saved) names_.threads.add_names(*saved);
  const bool new_threads = names_.threads.update();
  if (!flight_) cgroups_.update(names_.threads.threads());
  return names_.vms.update(names_.threads.threads()) || new_threads;
}

// Fills in the threads, VMs, cgroups and sync records known so far.
void RecordingRun::describe(SessionJson& session) const {
  session.threads = names_.threads.in_session();
  session.vms = names_.vms.vms(names_.threads.threads());
  session.cgroups = cgroups_.list();
  session.sync = sync_.brackets();
}

std::string RecordingRun::cmdlines(const ThreadTable& threads) {
  // Names this process too, because its sync records are in the recording.
  return fmt::format("{} trapline\n", ::getpid()) + threads.cmdlines();
}

// Syncs written data to the disk; with `texts` also the small files with their present content.
void RecordingRun::sync(bool texts) {
  if (const auto failed = disk_->error()) return cut_short(*failed);
  SyncJob job{writer_->files().files(), writer_->files().sizes(), {}};
  if (texts) {
    describe(session_);
    job.texts = {{"raw/cmdlines", cmdlines(names_.threads)}, {"session.json", to_text(session_)}};
  }
  disk_->ask(std::move(job));
}

void RecordingRun::on_tick() {
  std::uint64_t expired = 0;
  (void)!::read(timer_.get(), &expired, sizeof expired);
  if (!tracing_) return;
  ++ticks_;
  if (flight_) {
    (void)look_at_instance();
    if (ticks_ % kFlightLook == 0) (void)look_at_threads();
    (void)write_sync();
    // With --snapshot-on, a page that fills slowly may contain a hit; otherwise it can wait.
    if (flight_->found() != nullptr) take({});
    return;
  }
  if (ticks_ % ticks_a_second_ != 0) {
    take({});
    if (tracing_ && ticks_ % (ticks_a_second_ / kSyncsASecond) == 0) sync(false);
    return;
  }
  const bool meddled = look_at_instance();
  note_pages();  // finds markers of the last series in pages that were written since
  (void)write_sync();
  const auto hits = [this] { return hits_ ? hits_->facts().first_hits.size() : 0; };
  const std::size_t before = hits();
  take({});
  if (!tracing_) return;
  note_pages();
  const bool changed = look_at_threads() || meddled || hits() != before;
  sync(changed);
}

void RecordingRun::ask_to_end(int signal, const char* why) {
  if (session_.ended_by.empty()) session_.ended_by = why;
  if (!command_) {
    running_ = false;
    return;
  }
  command_->signal(signal);
  asked_at_ = read_clock(ClockId::kMono);
  ++asked_;
}

void RecordingRun::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int number = static_cast<int>(info.ssi_signo);
  if (flight_ && number == SIGUSR1) {
    (void)snapshot("signal", fmt::format("SIGUSR1 of process {}", info.ssi_pid));
    return;
  }
  // A terminal sends Ctrl-C to the command too.
  const bool from_terminal = info.ssi_code == SI_KERNEL;
  ask_to_end(asked_ > 0 ? SIGKILL : from_terminal ? 0 : number, "signal");
}

void RecordingRun::on_end_of_target() {
  if (command_ && !command_->reap()) return;
  if (session_.ended_by.empty()) session_.ended_by = command_ ? "command" : "process";
  running_ = false;
}

void RecordingRun::look_at_times() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (flight_ && flight_->due() != 0 && now >= flight_->due())
    (void)snapshot("expression", flight_->take_due());
  if (deadline_ != 0 && now >= deadline_) {
    deadline_ = 0;
    if (asked_ == 0) ask_to_end(SIGTERM, "duration");
  }
  if (asked_ > 0 && !nagged_ && now >= asked_at_ + kGrace) {
    nagged_ = true;
    say("the command does not end; Ctrl-C (or SIGTERM) once more kills it");
  }
}

// Until the first tick, looks at threads at doubling intervals, since a short run has ended by
// then.
void RecordingRun::look_early() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (next_look_ == 0 || now < next_look_) return;
  (void)look_at_threads();
  const std::uint64_t age = now - started_;
  next_look_ = age < kSecond ? now + std::max(age, kFirstLook) : 0;
}

void RecordingRun::loop() {
  enum : std::size_t { kSignals, kTimer, kTarget, kRequests, kPages };
  std::vector<pollfd> polled(kPages + reader_->cpus());
  const auto is_ready = [](const pollfd& file) { return file.revents != 0; };
  while (running_) {
    polled[kSignals] = {signals_.get(), POLLIN, 0};
    polled[kTimer] = {timer_.get(), POLLIN, 0};
    polled[kTarget] = {pidfd_.get(), POLLIN, 0};
    polled[kRequests] = {flight_ ? flight_->control().fd() : -1, POLLIN, 0};
    for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu)
      polled[kPages + cpu] = {tracing_ ? reader_->fd(cpu) : -1, POLLIN, 0};
    const int wait = wait_ms({deadline_, next_look_, flight_ ? flight_->due() : 0});
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) break;
    for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu) {
      if (!is_ready(polled[kPages + cpu])) continue;
      take(cpu);
      if (sink_) break;  // it takes the pages of all CPUs
    }
    if (is_ready(polled[kTimer])) on_tick();
    if (is_ready(polled[kRequests])) {
      flight_->control().serve([this](const std::string& why) { return snapshot("command", why); });
    }
    if (is_ready(polled[kSignals])) on_signal();
    if (is_ready(polled[kTarget])) on_end_of_target();
    look_at_times();
    look_early();
  }
}

Result<std::string> RecordingRun::snapshot(const std::string& asked_by, const std::string& why) {
  if (auto soon = flight_->check_spacing(); !soon) {
    // --snapshot-on may find a hit at each exit, so its refused requests are not reported.
    if (asked_by != "expression") say(soon.error().message);
    return tl::unexpected(std::move(soon).error());
  }
  auto path = write_snapshot({.asked_by = asked_by, .why = why});
  if (!path) say("no snapshot: " + path.error().message);
  return path;
}

Result<std::string> RecordingRun::write_snapshot(SessionFlight asked) {
  (void)write_sync();
  (void)look_at_instance();
  (void)look_at_threads();
  const auto complete = flight_->read_all(*reader_);
  if (!complete) return tl::unexpected(complete.error());
  const FlightCut cut = flight_->cut(*complete);
  SessionJson session = session_;
  describe(session);
  session.sync.clear();  // they are in the recording
  session.end_real_ns = read_clock(ClockId::kReal);
  session.start_real_ns = session.end_real_ns - (cut.to - cut.from);
  session.ended_by = "snapshot";
  session.flight = std::move(asked);
  std::erase_if(session.changes, [&cut](const SessionChange& one) {
    return one.to_ns != 0 && one.to_ns < cut.from;
  });
  ThreadTable threads = names_.threads;
  if (older_) threads.add_missing(*older_);
  session.threads = threads.in_session();
  if (const std::string warning = threads.warning(); !warning.empty()) {
    session.warnings.push_back(warning);
    say("warning: " + warning);
  }
  return flight_->write(*instance_, events_, cut, session, cmdlines(threads));
}

// Writes the last sync records, takes the last pages and counts, and stops tracing.
void RecordingRun::stop_tracing() {
  if (!tracing_) return;
  tracing_ = false;
  (void)look_at_instance();
  if (!broken_ && writer_) {
    note_pages();
    (void)write_sync();
  }
  if (qemu_events_)
    for (const std::string& left : qemu_events_->stop()) say("warning: " + left);
  (void)instance_->control().switch_off();
  session_.end_real_ns = read_clock(ClockId::kReal);
  ended_ = read_clock(ClockId::kMono);
  if (flight_) return;
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
  note_pages();  // before the files are closed
  session_.losses = reader_->losses(*instance_, stats_);
  for (CpuLoss& loss : session_.losses) {
    const PageFiles& files = writer_->files();
    loss.unwritten_pages =
        hits_ ? hits_->unwritten_pages(loss.cpu) : files.unwritten(loss.cpu) / files.page_size();
    loss.unwritten_pages += files.dropped(loss.cpu) / files.page_size();
  }
  if (const std::string warning = names_.threads.warning(); !warning.empty()) warn(warning);
}

Result<void> RecordingRun::close_session() {
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

Result<int> RecordingRun::finish() {
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
  const bool watched = others_->sees_all();
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
  for (const std::string& line : summary(session_, outcome)) say(line);
  const int status = session_.exit_status.value_or(0);
  return status == 0 && broken_ ? 1 : status;
}

}  // namespace trapline::record
