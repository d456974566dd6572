#include "merge/record/flight_recorder.h"

#include "backend_ftrace/base/text_file.h"
#include "merge/record/page_streams.h"
#include "merge/record/setup.h"
#include "merge/session/finish.h"

namespace trapline::record {
namespace {

constexpr unsigned kPagesPerRound = 64;      // of a CPU
constexpr unsigned kRoundsForAll = 100'000;  // 25 GiB of pages of 4 KiB: more than any buffer has
constexpr std::size_t kFinderBytes = 4u << 20;  // pages that wait for those of other CPUs

}  // namespace

Result<FlightPages> FlightPages::open(const Instance& instance, const FlightRingOptions& options) {
  FlightPages pages(options);
  for (unsigned cpu = 0; cpu < options.cpus; ++cpu) {
    auto stream = PageStream::open(instance.path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu)),
                                   nullptr, cpu, options.page_size);
    if (!stream) return tl::unexpected(std::move(stream).error());
    pages.streams_.push_back(std::move(*stream));
  }
  return pages;
}

void FlightPages::look_for(TriggerMatcher trigger) {
  const SnapshotOptions options{0, kFinderBytes, page_size_,
                                static_cast<unsigned>(streams_.size())};
  finder_ = std::make_unique<Snapshot>(
      options, std::move(trigger), is_alive,
      [](unsigned, std::span<const std::byte>) { return Result<void>{}; });
}

// A few pages of every CPU.
Result<bool> FlightPages::round() {
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, page_size_);
  const unsigned most = finder_ ? finder_->pages_per_round() : kPagesPerRound;
  bool all = true;
  if (finder_) finder_->begin_round();
  for (unsigned cpu = 0; cpu < streams_.size(); ++cpu) {
    bool more = true;
    for (unsigned pages = 0; pages < most; ++pages) {
      const auto got = streams_[cpu].read_page(page);
      if (!got) return tl::unexpected(got.error());
      more = *got;
      if (!more) break;
      if (auto added = ring_.add(cpu, page); !added) return tl::unexpected(added.error());
      if (!finder_) continue;
      if (auto added = finder_->add(cpu, page); !added) return tl::unexpected(added.error());
    }
    if (!more && finder_) finder_->drained(cpu);
    all &= !more;
  }
  if (finder_) {
    if (auto ended = finder_->end_round(); !ended) return tl::unexpected(ended.error());
  }
  return all;
}

Result<bool> FlightPages::read() {
  for (unsigned rounds = 0; rounds < kRoundsAtOnce; ++rounds) {
    auto all = round();
    if (!all || *all) return all;
  }
  return false;
}

// Once every CPU was found empty, all that was made before this call has been read. What is newest
// then is complete when every CPU was found empty again: later events of another may be older.
Result<std::uint64_t> FlightPages::read_all() {
  std::uint64_t complete = 0;
  bool drained = false;
  for (unsigned rounds = 0; rounds < kRoundsForAll; ++rounds) {
    const std::uint64_t before = ring_.newest();
    const auto all = round();
    if (!all) return tl::unexpected(all.error());
    complete = before;
    if (*all && drained) break;
    drained |= *all;
  }
  return complete;
}

void FlightPages::close() {
  for (PageStream& stream : streams_) stream.close();
}

namespace {

// What trace-cmd prints of a CPU's buffer: of the part that is kept.
std::string stats_of(unsigned cpu, const FlightPart& part) {
  return fmt::format(
      "CPU: {}\nentries: 0\noverrun: {}\ncommit overrun: 0\nbytes: 0\ndropped events: 0\n"
      "read events: {}\n",
      cpu, part.lost, part.events);
}

Result<void> write_parts(const Folder& folder, const FlightContent& content, const FlightCut& cut,
                         Session& session) {
  if (auto wrote = write_session(folder, session); !wrote) return wrote;
  auto files = make_page_files(content.instance, folder, content.options, session.enabled_events);
  if (!files) return tl::unexpected(std::move(files).error());
  if (auto wrote = folder.replace("raw/cmdlines", content.cmdlines, 0600, Durable::kYes); !wrote)
    return wrote;
  std::vector<std::string> stats;
  for (unsigned cpu = 0; cpu < content.cpus; ++cpu) {
    const auto part = content.ring.write(
        cpu, cut.from, cut.to,
        [&](std::span<const std::byte> page) { return files->write(cpu, page); });
    if (!part) return tl::unexpected(part.error());
    stats.push_back(stats_of(cpu, *part));
    session.losses.push_back({cpu, part->lost, 0, 0, 0});
    if (part->lost_unknown) {
      session.warnings.push_back(fmt::format("CPU {}: events lost (count unknown)", cpu));
    }
  }
  files->close();
  if (auto finished = finish_locked(folder, stats); !finished) return finished;
  session.closed = true;
  return write_session(folder, session);
}

}  // namespace

Result<void> write_flight_session(const Folder& store, const std::string& name,
                                  const FlightContent& content, const FlightCut& cut,
                                  Session& session) {
  auto made = make_session(store, name);
  if (!made) return tl::unexpected(made.error());
  auto wrote = write_parts(made->folder, content, cut, session);
  if (!wrote) {
    (void)remove_session_folder(std::move(made->folder));
    return wrote;
  }
  return made->earlier.make_way(made->folder);
}

}  // namespace trapline::record

extern "C" {  // glibc 2.36's header has none
#include <sys/pidfd.h>
}

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/clock.h"
#include "merge/record/summary.h"

namespace trapline::record {
namespace {

constexpr unsigned kTicksPerLook = 5;                 // at the names of threads
constexpr std::uint64_t kNamesKept = 3600 * kSecond;  // then those of dead threads are forgotten
constexpr std::uint64_t kHeadBytes = 16u
                                     << 20;  // of trace.dat: the kernel's symbols, event formats

}  // namespace

Result<void> FlightRecorder::prepare() {
  for (const char* clock : {"x86-tsc", "counter"}) {
    if (options_.clock != clock) continue;
    return fail(ErrorKind::kUsage, "--flight: --clock {} does not count nanoseconds", clock);
  }
  auto signals = open_signals({SIGUSR1});  // first: from here on Ctrl-C is told
  if (!signals) return tl::unexpected(std::move(signals).error());
  signals_ = std::move(*signals);
  auto ready = make_instance(options_);
  if (!ready) return tl::unexpected(std::move(ready).error());
  instance_.emplace(std::move(ready->instance));
  events_ = std::move(ready->events);
  auto store = FlightStore::open(options_.folder, options_.flight->budget_mb << 20);
  if (!store) return tl::unexpected(std::move(store).error());
  store_.emplace(std::move(*store));
  for (const std::string& name : store_->remove_halves())
    say("removed the half snapshot of a recorder that was killed: " + name);
  auto control = FlightControl::open(store_->folder());
  if (!control) return tl::unexpected(std::move(control).error());
  control_.emplace(std::move(*control));
  auto marker = open_marker(*instance_, std::nullopt);
  if (!marker) return tl::unexpected(std::move(marker).error());
  marker_ = std::move(*marker);
  return open_pages(std::move(ready->watch));
}

Result<void> FlightRecorder::open_pages(std::optional<TriggerMatcher> trigger) {
  const auto cpus = count_cpus(*instance_);
  if (!cpus) return tl::unexpected(cpus.error());
  const FlightRingOptions options{options_.flight->span_ns,
                                  std::size_t{options_.flight->ring_mb} << 20,
                                  page_size_of(*instance_), *cpus};
  auto pages = FlightPages::open(*instance_, options);
  if (!pages) return tl::unexpected(std::move(pages).error());
  pages_.emplace(std::move(*pages));
  if (trigger) pages_->look_for(std::move(*trigger));
  return {};
}

Result<void> FlightRecorder::start() {
  timer_ = open_ticks(kSecond);
  if (options_.pid != 0) {
    if (auto followed = follow_process(*instance_, options_.pid); !followed) return followed;
    pidfd_.reset(::pidfd_open(options_.pid, 0));
    if (!pidfd_) return fail("--pid {}: {}", options_.pid, std::strerror(errno));
  }
  warnings_ = unseen_marker_writers(*instance_, options_.pid);
  for (const std::string& warning : warnings_) say("warning: " + warning);
  names_.threads = older_.threads = ThreadTable(options_.pid);
  names_.since = read_clock(ClockId::kMono);
  others_.emplace(*instance_, events_, options_.clock);
  if (auto on = instance_->switch_on(true); !on) return on;
  others_->accept();
  if (!SyncLog().write_series(marker_.get())) {
    return fail("{}: {}", instance_->path("trace_marker"), std::strerror(errno));
  }
  look_at_names();
  if (options_.duration_ns) deadline_ = read_clock(ClockId::kMono) + *options_.duration_ns;
  say_what_it_does();
  return {};
}

void FlightRecorder::say_what_it_does() const {
  const FlightWish& wish = *options_.flight;
  say(beginning(options_, count_vms(options_)));
  const double mib_per_cpu = static_cast<double>(options_.buffer_kb) / 1024;
  say(fmt::format(
      "holds the last {:g} s of events in at most {} MiB (--ring-size), beside the kernel's "
      "buffers, {:g} MiB for each of {} CPUs (--buffer-size)",
      static_cast<double>(wish.span_ns) / 1e9, wish.ring_mb, mib_per_cpu, pages_->size()));
  say(fmt::format(
      "writes nothing until asked: trapline snapshot {}, kill -USR1 {}{}", options_.folder,
      ::getpid(),
      options_.snapshot ? fmt::format(", or '{}'", options_.snapshot->trigger.text) : ""));
  say(
      fmt::format("snapshots: at most one in {:g} s (--spacing), together at most {} MiB "
                  "(--disk-budget), beyond that the oldest is deleted",
                  static_cast<double>(wish.spacing_ns) / 1e9, wish.budget_mb));
}

Result<int> FlightRecorder::run() {
  ::umask(077);  // what a session holds is its owner's alone
  Result<void> done = prepare();
  if (done) done = start();
  if (done) done = loop();
  if (instance_) (void)instance_->control().switch_off();
  if (pages_) pages_->close();
  others_.reset();
  marker_.reset();
  control_.reset();
  if (instance_) {
    if (auto removed = instance_->remove(); !removed) say(removed.error().message);
  }
  if (!done) return tl::unexpected(std::move(done).error());
  return 0;
}

Result<void> FlightRecorder::loop() {
  enum : std::size_t { kSignals, kTimer, kTarget, kControl, kStreams };
  std::vector<pollfd> polled(kStreams + pages_->size());
  polled[kSignals] = {signals_.get(), POLLIN, 0};
  polled[kTimer] = {timer_.get(), POLLIN, 0};
  polled[kTarget] = {pidfd_.get(), POLLIN, 0};
  polled[kControl] = {control_->fd(), POLLIN, 0};
  for (std::size_t i = 0; i < pages_->size(); ++i) {
    polled[kStreams + i] = {pages_->fd(i), POLLIN, 0};
  }
  while (running_) {
    const int wait = wait_ms({deadline_, due_});
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) break;
    const auto is_ready = [](const pollfd& file) { return file.revents != 0; };
    if (std::any_of(polled.begin() + kStreams, polled.end(), is_ready)) {
      if (auto read = pages_->read(); !read) return tl::unexpected(read.error());
      look_for_hit();
    }
    if (is_ready(polled[kTimer])) {
      if (auto ticked = on_tick(); !ticked) return ticked;
    }
    if (is_ready(polled[kControl])) {
      control_->serve([this](const std::string& why) { return snapshot("command", why); });
    }
    if (is_ready(polled[kSignals])) on_signal();
    if (is_ready(polled[kTarget])) running_ = false;
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (due_ != 0 && now >= due_) {
      due_ = 0;
      (void)snapshot("expression", due_why_);
    }
    if (deadline_ != 0 && now >= deadline_) running_ = false;
  }
  return {};
}

void FlightRecorder::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  if (info.ssi_signo == SIGUSR1) {
    (void)snapshot("signal", fmt::format("SIGUSR1 of process {}", info.ssi_pid));
  } else {
    running_ = false;
  }
}

// Pages that fill slowly are looked at once a second only where a hit may be in them.
Result<void> FlightRecorder::on_tick() {
  std::uint64_t expired = 0;
  (void)!::read(timer_.get(), &expired, sizeof expired);
  look_at_instance();
  if (++ticks_ % kTicksPerLook == 0) look_at_names();
  (void)SyncLog().write_series(marker_.get());
  if (!pages_->found()) return {};
  if (auto read = pages_->read(); !read) return tl::unexpected(read.error());
  look_for_hit();
  return {};
}

// Names are kept for an hour at least and two at most: a host is up for months.
void FlightRecorder::look_at_names() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (now - names_.since > kNamesKept) {
    older_ = std::exchange(names_, Names{ThreadTable(options_.pid), {}, now});
  }
  if (auto saved = read_text(instance_->tracefs() + "/saved_cmdlines"))
    names_.threads.add_names(*saved);
  (void)names_.threads.update();
  (void)names_.vms.update(names_.threads.threads());
}

void FlightRecorder::look_at_instance() {
  for (std::string& sentence : others_->look()) {
    say("warning: " + sentence);
    warnings_.push_back(std::move(sentence));
  }
}

void FlightRecorder::look_for_hit() {
  const SnapshotFacts* found = pages_->found();
  if (found == nullptr) return;
  if (!found->cannot_hit.empty() && !std::exchange(warned_, true)) {
    say(fmt::format("warning: --snapshot-on '{}': {}", options_.snapshot->trigger.text,
                    found->cannot_hit));
  }
  const bool ended = found->hits != std::exchange(hits_, found->hits);
  const bool lasts = found->certain != std::exchange(certain_, found->certain);
  if ((!ended && !lasts) || due_ != 0) return;
  const Hit& hit = ended ? found->latest : found->latest_certain;
  const auto thread = static_cast<std::int32_t>(hit.thread);
  const double ms = static_cast<double>(hit.end - hit.start) / 1e6;
  const std::string& text = options_.snapshot->trigger.text;
  due_why_ = ended ? fmt::format("{}: {} of thread {} took {:.3f} ms", text, hit.reason, thread, ms)
                   : fmt::format("{}: thread {} for {:.3f} ms, and it lasts", text, thread, ms);
  due_ = std::max<std::uint64_t>(read_clock(ClockId::kMono) + options_.snapshot->around_ns, 1);
}

Result<std::string> FlightRecorder::snapshot(const std::string& asked_by, const std::string& why) {
  const std::uint64_t now = read_clock(ClockId::kMono);
  const std::uint64_t spacing = options_.flight->spacing_ns;
  if (last_ != 0 && now - last_ < spacing) {
    ++refused_;
    Error error{
        fmt::format("no snapshot: the last one was taken {:.0f} s ago, and there is at most one "
                    "in {:g} s (--spacing)",
                    static_cast<double>(now - last_) / 1e9, static_cast<double>(spacing) / 1e9)};
    // An expression may hit at each exit.
    if (asked_by != "expression") say(error.message);
    return tl::unexpected(std::move(error));
  }
  auto path = write_snapshot(asked_by, why);
  if (path) {
    last_ = now;
    refused_ = 0;
  } else {
    say("no snapshot: " + path.error().message);
  }
  return path;
}

Result<std::string> FlightRecorder::write_snapshot(const std::string& asked_by,
                                                   const std::string& why) {
  (void)SyncLog().write_series(marker_.get());
  look_at_instance();
  look_at_names();
  const auto complete = pages_->read_all();
  if (!complete) return tl::unexpected(complete.error());
  const FlightRing& ring = pages_->ring();
  const FlightCut cut{std::min(ring.begin(), *complete), *complete};
  auto removed = store_->make_room(ring.held_bytes() * 5 / 4 + kHeadBytes);
  if (!removed) return tl::unexpected(std::move(removed).error());
  for (const std::string& name : *removed) say("removed the oldest snapshot: " + name);
  Session session;
  session.end_real_ns = read_clock(ClockId::kReal);
  session.start_real_ns = session.end_real_ns - (cut.to - cut.from);
  session.enabled_events = events_;
  session.pid = options_.pid;
  session.trapline_version = options_.trapline_version;
  session.clock = options_.clock;
  session.buffer_kb = options_.buffer_kb;
  session.instance = instance_->name();
  session.ended_by = "snapshot";
  session.warnings = warnings_;
  session.changes = others_->changes();
  std::erase_if(session.changes, [&cut](const SessionChange& one) {
    return one.to_ns != 0 && one.to_ns < cut.from;
  });
  ThreadTable threads = names_.threads;
  threads.add_missing(older_.threads);
  session.seen_threads = threads.threads();
  if (const std::string warning = threads.warning(); !warning.empty()) {
    session.warnings.push_back(warning);
    say("warning: " + warning);
  }
  session.vms = names_.vms.vms(session.seen_threads);
  session.flight = SessionFlight{
      asked_by, why, options_.flight->span_ns, cut.from, cut.to, ring.is_short(), refused_};
  store_->follow_rename();
  const std::string name = store_->name_for(session.end_real_ns);
  const std::string path = store_->folder().path_of(name);
  const std::string own = fmt::format("{} trapline\n", ::getpid());  // of the sync records
  const FlightContent content{*instance_, options_, ring, static_cast<unsigned>(pages_->size()),
                              own + threads.cmdlines()};
  if (auto wrote = write_flight_session(store_->folder(), name, content, cut, session); !wrote) {
    return tl::unexpected(std::move(wrote).error());
  }
  say_snapshot(path, session);
  return path;
}

void FlightRecorder::say_snapshot(const std::string& path, const Session& session) const {
  const SessionFlight& flight = *session.flight;
  const std::string reason = flight.why.empty() ? "" : fmt::format(" ({})", flight.why);
  say(fmt::format("snapshot: {}: the last {:.1f} s{}", path,
                  static_cast<double>(flight.to_ns - flight.from_ns) / 1e9, reason));
  if (flight.shortened) {
    say(fmt::format("it is shorter than {:g} s, since the ring was full: --ring-size {} holds more",
                    static_cast<double>(flight.span_ns) / 1e9,
                    size_text(2 * options_.flight->ring_mb * kMib)));
  }
  std::uint64_t lost = 0;
  for (const CpuLoss& loss : session.losses) lost += loss.overwritten;
  if (lost != 0)
    say(fmt::format("the kernel lost {} events in it; --buffer-size {} loses fewer", lost,
                    size_text(4 * options_.buffer_kb * kKib)));
}

}  // namespace trapline::record
