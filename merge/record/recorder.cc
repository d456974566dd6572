#include "merge/record/recorder.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

extern "C" {  // glibc 2.36's header has none
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/clock.h"
#include "merge/record/command.h"
#include "merge/record/finish.h"
#include "merge/record/instance.h"
#include "merge/record/page_streams.h"
#include "merge/record/session.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"
#include "merge/record/target.h"
#include "merge/record/text_file.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kGrace = 10 * kSecond;
constexpr std::uint64_t kFirstLook = 5'000'000;

class Recorder {
 public:
  explicit Recorder(const RecordOptions& options) : options_(options) {}
  Result<int> run();

 private:
  Result<void> prepare();
  Result<void> open_session();
  Result<void> open_streams();
  Result<void> start();
  void loop();
  void on_signal();
  void on_tick();
  void on_end_of_target();
  void ask_to_end(int signal, const char* why);
  void look_after_grace();
  [[nodiscard]] bool look_at_threads();
  void look_early();
  [[nodiscard]] int wait_ms() const;
  void drain(std::size_t cpu);
  void cut_short(const Error& error);
  void stop_tracing();
  Result<int> finish();
  Result<void> close_session();
  void note_streams();
  void save_session();

  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }

  const RecordOptions& options_;
  Target target_;
  Session session_;
  std::optional<Instance> instance_;  // the files below hold it open: they go before it
  UniqueFd marker_, lock_, signals_, timer_, pidfd_;
  std::optional<HitWatch> watch_;  // until the streams have it
  std::optional<PageStreams> streams_;
  std::optional<Command> command_;
  QemuAdditions additions_;
  ThreadTable threads_;
  SyncLog sync_;
  std::uint64_t started_ = 0, deadline_ = 0, asked_at_ = 0;
  std::uint64_t next_look_ = 0;  // at the threads; 0: with the ticks
  unsigned asked_ = 0;
  bool tracing_ = false, running_ = true, session_made_ = false, nagged_ = false;
  std::optional<Error> broken_;  // what cut the recording short
};

Result<void> Recorder::prepare() {
  auto signals = open_signals();  // first: from here on Ctrl-C leaves nothing behind
  if (!signals) return tl::unexpected(std::move(signals).error());
  signals_ = std::move(*signals);
  auto target = look_at_target(options_);
  if (!target) return tl::unexpected(std::move(target).error());
  target_ = std::move(*target);
  auto root = find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  for (const Leftover& leftover : remove_leftovers(*root)) {
    say(leftover.removed ? fmt::format("removed the instance of a dead recorder: {}", leftover.name)
                         : fmt::format("the instance of a dead recorder stays: {}: {}",
                                       leftover.name, leftover.why));
  }
  auto instance = Instance::create();
  if (!instance) return tl::unexpected(std::move(instance).error());
  instance_.emplace(std::move(*instance));
  auto events = choose_events(*root, options_.events);
  if (!events) return tl::unexpected(std::move(events).error());
  session_.events = std::move(*events);
  if (options_.snapshot) {
    auto watch = open_watch(*instance_, options_, session_.events);
    if (!watch) return tl::unexpected(std::move(watch).error());
    watch_.emplace(std::move(*watch));
  }
  if (auto set = set_up(*instance_, options_, session_.events); !set) return set;
  auto marker = open_marker(*instance_, target_.user);
  if (!marker) return tl::unexpected(std::move(marker).error());
  marker_ = std::move(*marker);
  const std::string path = target_.user ? fmt::format("/proc/self/fd/{}", marker_.get())
                                        : instance_->path("trace_marker");
  auto additions = complete_command(options_, target_, path);
  if (!additions) return tl::unexpected(std::move(additions).error());
  additions_ = std::move(*additions);
  return {};
}

Result<void> Recorder::open_session() {
  if (auto made = make_session_folder(options_.folder); !made) return made;
  session_made_ = true;
  auto lock = lock_session(options_.folder);
  if (!lock) return tl::unexpected(std::move(lock).error());
  lock_ = std::move(*lock);
  session_.command = additions_.words;
  session_.added = additions_.added;
  session_.pid = options_.pid;
  session_.user = options_.user;
  session_.qemu_version = target_.facts.version;
  session_.trapline_version = options_.trapline_version;
  session_.clock = options_.clock;
  session_.functions = options_.functions;
  session_.buffer_kb = options_.buffer_kb;
  if (options_.snapshot) {
    session_.snapshot_on = options_.snapshot->trigger.text;
    session_.around_ns = options_.snapshot->around_ns;
  }
  session_.instance = instance_->name();
  session_.start_real_ns = read_clock(ClockId::kReal);
  if (auto wrote = write_session(options_.folder, session_); !wrote) return wrote;
  copy_companions(options_, target_);
  if (options_.functions && target_.user) {
    const std::string out = options_.folder + "/uftrace.data";
    if (::mkdir(out.c_str(), 0755) != 0 ||
        ::chown(out.c_str(), target_.user->uid, target_.user->gid) != 0) {
      return fail("{}: {}", out, std::strerror(errno));
    }
  }
  return open_streams();
}

Result<void> Recorder::open_streams() {
  const std::string raw = options_.folder + "/raw/";
  const auto facts = write_head(*instance_, options_, session_.events);
  if (!facts) return tl::unexpected(facts.error());
  if (auto reserved = reserve(raw + "reserve"); !reserved) return reserved;
  auto streams = PageStreams::open(*instance_, raw, facts->cpus, facts->page_size);
  if (!streams) return tl::unexpected(std::move(streams).error());
  streams_.emplace(std::move(*streams));
  if (watch_) {
    const SnapshotWish& wish = *options_.snapshot;
    streams_->keep_hits(std::move(*watch_), wish.around_ns, wish.ring_mb << 20);
    watch_.reset();
  }
  return write_start(options_.folder, *facts);
}

Result<void> Recorder::start() {
  timer_ = open_ticks();
  if (!options_.command.empty()) {
    CommandOptions how{additions_.words, target_.user, marker_.get(), "", ""};
    if (target_.facts.tracing == QemuTracing::kFtrace && !options_.qemu_events.empty()) {
      how.marker = instance_->path("trace_marker");
      how.marker_target = instance_->tracefs() + "/trace_marker";
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
    threads_ = ThreadTable(options_.pid);
  }
  if (auto on = instance_->set("tracing_on", "1"); !on) return on;
  tracing_ = true;
  if (!sync_.write_series(marker_.get())) {
    return fail("{}: {}", instance_->path("trace_marker"), std::strerror(errno));
  }
  started_ = read_clock(ClockId::kMono);
  next_look_ = started_ + kFirstLook;
  if (options_.duration_ns) deadline_ = started_ + *options_.duration_ns;
  for (const std::string& added : additions_.added) say("added to QEMU's command: " + added);
  for (const std::string& warning : additions_.warnings) say("warning: " + warning);
  return command_ ? command_->start() : Result<void>{};
}

void Recorder::drain(std::size_t cpu) {
  if (!tracing_) return;
  if (auto moved = streams_->drain(cpu); !moved) cut_short(moved.error());
}

// The recording ends here, the command goes on.
void Recorder::cut_short(const Error& error) {
  broken_ = error;
  session_.ended_by = error.message;
  stop_tracing();
  if (auto closed = close_session(); !closed) {
    say(closed.error().message);
  }
  if (command_ && !command_->reap()) {
    say(fmt::format("{}; recording has stopped, what came before is in {}; the command goes on",
                    error.message, options_.folder));
  } else {
    say(fmt::format("{}; recording has stopped, what came before is in {}", error.message,
                    options_.folder));
    running_ = false;
  }
}

// What the streams have learned of the recording.
void Recorder::note_streams() {
  for (const SyncStamp& sync : streams_->take_stamps()) {
    sync_.stamp(sync.series, sync.index, sync.stamp);
  }
  if (const SnapshotFacts* facts = streams_->snapshot()) session_.snapshot = *facts;
}

void Recorder::save_session() {
  note_streams();
  session_.threads = threads_.threads();
  session_.sync = sync_.brackets();
  // Both are better than nothing where the disk is nearly full: what fails is written at the end.
  const std::string own = fmt::format("{} trapline\n", ::getpid());  // of the sync records
  (void)replace_file(options_.folder + "/raw/cmdlines", own + threads_.cmdlines());
  (void)write_session(options_.folder, session_);
}

void Recorder::on_tick() {
  std::uint64_t ticks = 0;
  (void)!::read(timer_.get(), &ticks, sizeof ticks);
  if (!tracing_) return;
  (void)sync_.write_series(marker_.get());
  const std::size_t hits = session_.snapshot.first_hits.size();
  if (auto flushed = streams_->flush(); !flushed) return cut_short(flushed.error());
  note_streams();
  if (look_at_threads() || session_.snapshot.first_hits.size() != hits) save_session();
}

void Recorder::ask_to_end(int signal, const char* why) {
  if (session_.ended_by.empty()) session_.ended_by = why;
  if (!command_) {
    running_ = false;
    return;
  }
  command_->signal(signal);
  asked_at_ = read_clock(ClockId::kMono);
  ++asked_;
}

void Recorder::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int number = static_cast<int>(info.ssi_signo);
  // A terminal sends Ctrl-C to the command as well.
  const bool from_terminal = info.ssi_code == SI_KERNEL;
  ask_to_end(asked_ > 0 ? SIGKILL : from_terminal ? 0 : number, "signal");
}

void Recorder::on_end_of_target() {
  if (command_ && !command_->reap()) return;
  if (session_.ended_by.empty()) session_.ended_by = command_ ? "command" : "process";
  running_ = false;
}

void Recorder::look_after_grace() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (deadline_ != 0 && now >= deadline_) {
    deadline_ = 0;
    if (asked_ == 0) ask_to_end(SIGTERM, "duration");
  }
  if (asked_ > 0 && !nagged_ && now >= asked_at_ + kGrace) {
    nagged_ = true;
    say("the command does not end; Ctrl-C (or SIGTERM) once more kills it");
  }
}

// Whether a virtual machine has another thread, or one another name. Of all others what the kernel
// remembers is kept.
bool Recorder::look_at_threads() {
  auto saved = read_text(instance_->tracefs() + "/saved_cmdlines");
  if (saved) threads_.add_names(*saved);
  return threads_.update();
}

// Until the first tick, at ages that double: a short run has ended by then.
void Recorder::look_early() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (next_look_ == 0 || now < next_look_) return;
  (void)look_at_threads();
  const std::uint64_t age = now - started_;
  next_look_ = age < kSecond ? now + std::max(age, kFirstLook) : 0;
}

int Recorder::wait_ms() const {
  std::uint64_t next = deadline_ == 0 ? next_look_ : deadline_;
  if (next_look_ != 0) next = std::min(next, next_look_);
  if (next == 0) return -1;
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (now >= next) return 0;
  return static_cast<int>(std::min<std::uint64_t>((next - now) / 1'000'000 + 1, 60'000));
}

void Recorder::loop() {
  enum : std::size_t { kSignals, kTimer, kTarget, kStreams };
  std::vector<pollfd> polled(kStreams + streams_->size());
  while (running_) {
    polled[kSignals] = {signals_.get(), POLLIN, 0};
    polled[kTimer] = {timer_.get(), POLLIN, 0};
    polled[kTarget] = {pidfd_.get(), POLLIN, 0};
    for (std::size_t i = 0; i < streams_->size(); ++i) {
      polled[kStreams + i] = {tracing_ ? streams_->fd(i) : -1, POLLIN, 0};
    }
    if (::poll(polled.data(), polled.size(), wait_ms()) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < streams_->size(); ++i) {
      if (polled[kStreams + i].revents != 0) drain(i);
    }
    if (polled[kTimer].revents != 0) on_tick();
    if (polled[kSignals].revents != 0) on_signal();
    if (polled[kTarget].revents != 0) on_end_of_target();
    look_after_grace();
    look_early();
  }
}

// The last sync records, the last pages, the counts.
void Recorder::stop_tracing() {
  if (!tracing_) return;
  tracing_ = false;
  if (!broken_) (void)sync_.write_series(marker_.get());
  (void)instance_->set("tracing_on", "0");
  session_.end_real_ns = read_clock(ClockId::kReal);
  (void)look_at_threads();
  if (!broken_) {
    if (auto finished = streams_->finish(); !finished) {
      broken_ = finished.error();
      session_.ended_by = broken_->message;
      say(broken_->message + "; the recording lacks its end");
    }
  }
  session_.losses = streams_->losses(*instance_);
}

Result<void> Recorder::close_session() {
  const std::vector<std::string> stats = streams_->stats(*instance_);
  streams_->close();
  // First of all the reserve: what follows must have room on a full disk.
  ::unlink((options_.folder + "/raw/reserve").c_str());
  save_session();
  auto finished = finish_locked(options_.folder, stats);
  session_.closed = finished.has_value();
  auto wrote = write_session(options_.folder, session_);
  lock_.reset();
  if (!finished) {
    return fail("{}; the pages are in {}/raw: make room and give: trapline report {}",
                finished.error().message, options_.folder, options_.folder);
  }
  return wrote;
}

Result<int> Recorder::finish() {
  stop_tracing();
  Result<void> closed;
  if (!session_.closed) {
    if (command_) session_.exit_status = command_->reap();
    closed = close_session();
  } else if (command_) {
    session_.exit_status = command_->reap();
    (void)write_session(options_.folder, session_);
  }
  marker_.reset();
  if (auto removed = instance_->remove(); !removed) say(removed.error().message);
  if (!closed) return tl::unexpected(std::move(closed).error());
  const Outcome outcome{options_.folder, streams_->written(), streams_->read(), !broken_};
  for (const std::string& line : summary(session_, outcome)) say(line);
  const int status = session_.exit_status.value_or(0);
  return status == 0 && broken_ ? 1 : status;
}

Result<int> Recorder::run() {
  Result<void> ready = prepare();
  if (ready) ready = open_session();
  if (ready) ready = start();
  if (!ready) {
    std::error_code error;
    if (session_made_) {
      // Nothing was recorded: no folder that looks like a session.
      fs::remove_all(options_.folder, error);
    }
    streams_.reset();
    marker_.reset();
    command_.reset();
    if (instance_) {
      if (auto removed = instance_->remove(); !removed) say(removed.error().message);
    }
    return tl::unexpected(std::move(ready).error());
  }
  loop();
  return finish();
}

}  // namespace

Result<int> record(const RecordOptions& options) { return Recorder(options).run(); }

}  // namespace trapline::record
