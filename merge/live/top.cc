#include "merge/live/top.h"

#include <linux/capability.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "backend_ftrace/tracetool/declarations.h"
#include "merge/live/live_source.h"
#include "merge/live/page_feed.h"
#include "merge/live/prometheus.h"
#include "merge/live/screen.h"
#include "merge/pass/first_look.h"
#include "merge/pass/selection.h"
#include "merge/record/doctor.h"
#include "merge/record/setup.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_folder.h"
#include "plugin/format/symbol_table.h"

namespace trapline::live {
namespace {

constexpr Timestamp kForEver{std::numeric_limits<std::uint64_t>::max()};
constexpr std::uint64_t kDrawEvery = 50'000'000;  // ns
constexpr int kTickMs = 250;                      // how often a live source is read

// Waits for a signal, the source's pages or a key. Returns false if a signal came or the terminal
// is gone.
bool wait(int signals, const Watch& watch, bool keys, int milliseconds) {
  std::vector<pollfd> polled{{signals, POLLIN, 0}};
  if (keys) polled.push_back({STDIN_FILENO, POLLIN, 0});
  for (const int fd : watch.polled()) polled.push_back({fd, POLLIN, 0});
  if (::poll(polled.data(), polled.size(), milliseconds) <= 0) return true;
  const bool lost = keys && (polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  return polled[0].revents == 0 && !lost;
}

// Takes over the signals. For a live source this comes before an instance is made, which must be
// removed at the end. Opening a recording makes nothing and may take long, so until it is open,
// signals end the program.
Result<void> take_over(UniqueFd& signals) {
  if (signals) return {};
  auto taken = record::open_signals();
  if (!taken) return tl::unexpected(std::move(taken).error());
  signals = std::move(*taken);
  return {};
}

// Keeps the rights that top needs from here on: to see others' processes and, if it writes files,
// their owner's rights.
Result<void> give_up_rights(Watch& watch, bool saves, bool replaces_file) {
  if (!watch.live() || ::geteuid() != 0) return {};
  std::vector<int> kept{CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE};
  if (saves && invoking_user()) kept.insert(kept.end(), {CAP_SETUID, CAP_SETGID});
  if ((saves && !invoking_user()) || replaces_file) kept.push_back(CAP_DAC_OVERRIDE);
  if (replaces_file) kept.insert(kept.end(), {CAP_CHOWN, CAP_FOWNER});  // the file keeps its owner
  return keep_capabilities(kept);
}

// Returns a sentence for the case that no exits come. It gives the reason only for an instance of
// our own, in which KVM's events are switched on.
std::string no_exit_sentence(const TopOptions& options) {
  constexpr std::string_view kNone = "no VM exit for two intervals", kNext = "trapline doctor";
  if (!options.input.paths.empty() || !options.instance.empty())
    return fmt::format("{}; {} checks this host", kNone, kNext);
  const bool vm_seen = !record::running_vms().empty();
  return fmt::format("{}: {}; {} checks this host", kNone,
                     record::why_no_exit(record::look_at_host(""), vm_seen), kNext);
}

// The figures for --prometheus and --listen.
class Metrics {
 public:
  // Returns nullptr if neither is asked for.
  [[nodiscard]] static Result<std::unique_ptr<Metrics>> open(const TopOptions& options) {
    if (options.prometheus.empty() && options.listen.empty()) return nullptr;
    auto metrics = std::make_unique<Metrics>(options);
    if (options.listen.empty()) return metrics;
    auto server = MetricsServer::open(options.listen);
    if (!server) return tl::unexpected(std::move(server).error());
    metrics->server_ = std::move(*server);
    metrics->server_->set(metrics->figures_.text());
    return metrics;
  }
  explicit Metrics(const TopOptions& options) : options_(options) {}
  [[nodiscard]] Result<void> add(const Frame& frame, const Engine& engine) {
    figures_.add(frame, options_.batch, engine);
    const std::string text = figures_.text();
    Result<void> written;
    if (!options_.prometheus.empty()) written = replace_file(options_.prometheus, text);
    if (server_) server_->set(text);
    return written;
  }

 private:
  const TopOptions& options_;
  Figures figures_;
  std::unique_ptr<MetricsServer> server_;
};

// Runs --batch, --prometheus and --listen: takes events as fast as they come.
Result<void> run_batch(const TopOptions& options, UniqueFd& signals) {
  std::unique_ptr<Metrics> metrics;
  Watch* watching = nullptr;
  Result<void> written;
  std::uint64_t frames = 0;
  bool running = true, told = false;
  NoExitNotice quiet(options.engine.interval_ns, read_clock(ClockId::kMono));
  auto watch = Watch::open(options, [&](Frame&& frame) {
    if (!running) return;
    (void)quiet.add(frame, read_clock(ClockId::kMono));
    if (metrics) written = metrics->add(frame, watching->engine());
    if (!written) running = false;
    if (options.to_batch) {
      const std::string line = batch_line(frame, options.batch, watching->engine()) + "\n";
      if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() ||
          std::fflush(stdout) != 0) {
        running = false;
        // If the reader of the pipe has gone, it has seen enough: no error.
        if (errno != EPIPE) written = fail("stdout: cannot write: {}", std::strerror(errno));
      }
    }
    if (++frames == options.count) running = false;
    // Live, a VM may start later. A recording's names are checked at its end.
    if (watching->live() == nullptr || told) return;
    const auto known = watching->engine().check_names();
    if (!known && !std::exchange(told, true)) options.say(known.error().message);
  });
  if (!watch) return tl::unexpected(std::move(watch).error());
  watching = watch->get();
  for (const std::string& sentence : watching->engine().input().missing) options.say(sentence);
  if (auto taken = take_over(signals); !taken) return taken;
  if (auto given_up = give_up_rights(*watching, false, !options.prometheus.empty()); !given_up)
    return given_up;
  auto opened = Metrics::open(options);
  if (!opened) return tl::unexpected(std::move(opened).error());
  metrics = std::move(*opened);
  while (running && !watching->has_ended()) {
    const auto more = watching->step(kForEver);
    if (!more) return tl::unexpected(more.error());
    if (watching->live() != nullptr && quiet.is_due(read_clock(ClockId::kMono)))
      options.say(no_exit_sentence(options));
    if (running && !watching->has_ended())
      running = wait(signals.get(), *watching, false, *more ? 0 : kTickMs);
  }
  const Engine& engine = watching->engine();
  if (engine.pipeline().exits().lacks_entries()) options.say(no_entries(engine.timeline()).message);
  if (watching->has_ended() && watching->live() != nullptr)
    options.say(watching->live()->feed().last_words());
  return written;
}

class ScreenRun {
 public:
  ScreenRun(const TopOptions& options, UniqueFd& signals)
      : options_(options),
        signals_(signals),
        quiet_(options.engine.interval_ns, read_clock(ClockId::kMono)) {}

  Result<void> run() {
    // Errors of the recording are printed before the terminal changes.
    auto watch = Watch::open(options_, [this](Frame&& frame) { take(std::move(frame)); });
    if (!watch) return tl::unexpected(std::move(watch).error());
    watch_ = std::move(*watch);
    if (auto taken = take_over(signals_); !taken) return taken;
    if (auto given_up = give_up_rights(*watch_, true, !options_.prometheus.empty()); !given_up)
      return given_up;
    view_.emplace(watch_->engine(), options_.batch);
    if (watch_->live() != nullptr) view_->save = [this] { return save(); };
    const std::vector<std::string>& missing = watch_->engine().input().missing;
    if (!missing.empty()) view_->say(fmt::format("{}", fmt::join(missing, "; ")));
    auto metrics = Metrics::open(options_);
    if (!metrics) return tl::unexpected(std::move(metrics).error());
    metrics_ = std::move(*metrics);
    auto screen = Screen::open(options_.colours);
    if (!screen) return tl::unexpected(std::move(screen).error());
    screen_ = std::move(*screen);
    const Result<void> done = loop();
    screen_.reset();
    return done;
  }

 private:
  void take(Frame&& frame) {
    if (watch_->engine().model_changes() != model_changes_) {
      model_changes_ = watch_->engine().model_changes();
      view_->clear();
    }
    if (metrics_) {
      if (auto written = metrics_->add(frame, watch_->engine()); !written) {
        view_->say(written.error().message);
      }
    }
    if (quiet_.add(frame, read_clock(ClockId::kMono))) view_->say("");
    last_ = frame.end;
    view_->add(std::move(frame));
    changed_ = true;
  }
  // Returns up to which time to show; a recording is shown at the pace at which it was made.
  Timestamp until() {
    if (watch_->live() != nullptr) return kForEver;
    const auto first = watch_->engine().first();
    if (!first) return Timestamp(1);
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (started_ == 0) started_ = now;
    return Timestamp(first->ns() + (now - started_) + 1);
  }
  std::string save() {
    char name[64];
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    (void)std::strftime(name, sizeof name, "top-%Y%m%d-%H%M%S.trapline", &local);
    const Timestamp from(last_.ns() > options_.save_ns ? last_.ns() - options_.save_ns : 0);
    LiveSource& live = *watch_->live();
    const auto saved =
        save_session(live, live.feed(), from, last_, name, options_.record.trapline_version);
    if (!saved) return saved.error().message;
    return fmt::format("saved the last {:.1f} s, {} events: trapline report {}",
                       static_cast<double>(elapsed(saved->from, saved->to)) / 1e9, saved->events,
                       name);
  }
  Result<void> loop() {
    for (bool running = true; running;) {
      const auto more = watch_->step(until());
      if (!more) return tl::unexpected(more.error());
      for (int key = screen_->key(); key != -1 && running; key = screen_->key()) {
        running = view_->key(key);
        changed_ = true;
      }
      if (watch_->has_ended() && !std::exchange(told_end_, true)) {
        view_->say("this is the end of the recording: Left and Right step through it, q leaves");
        changed_ = true;
      }
      // If frames come one after the other, not each is drawn.
      const std::uint64_t now = read_clock(ClockId::kMono);
      if (watch_->live() != nullptr && quiet_.is_due(now)) {
        view_->say(no_exit_sentence(options_));
        changed_ = true;
      }
      if (changed_ && (!*more || now - drawn_ > kDrawEvery)) {
        screen_->draw(view_->draw(screen_->width(), screen_->height()));
        changed_ = false;
        drawn_ = now;
      }
      if (running) running = wait(signals_.get(), *watch_, true, *more ? 0 : kTickMs);
    }
    return {};
  }

  const TopOptions& options_;
  UniqueFd& signals_;
  NoExitNotice quiet_;
  std::unique_ptr<Watch> watch_;
  std::optional<View> view_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Screen> screen_;
  Timestamp last_;
  std::uint64_t started_ = 0, drawn_ = 0, model_changes_ = 0;
  bool changed_ = true, told_end_ = false;
};

}  // namespace

Result<void> run_top(const TopOptions& options) {
  UniqueFd signals;
  if (auto taken = options.input.paths.empty() ? take_over(signals) : Result<void>(); !taken)
    return taken;
  const bool no_screen = options.to_batch || !options.prometheus.empty() || !options.listen.empty();
  if (options.to_batch || (no_screen && ::isatty(STDOUT_FILENO) == 0)) {
    return run_batch(options, signals);
  }
  if (auto can = Screen::can_open(); !can) return can;
  return ScreenRun(options, signals).run();
}

namespace {

// Events taken before signals and keys are checked again.
constexpr std::uint64_t kEventsAtOnce = 1u << 13;

// Adds what is known beside the pages of a live source: symbols, and declarations of QEMU's events.
Result<void> add_companions(const InputOptions& options, const std::string& session, Input& input) {
  std::vector<SymbolFileSpec> specs;
  for (const std::string& text : options.symbols) {
    auto spec = parse_symbol_file_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    specs.push_back(std::move(*spec));
  }
  if (!specs.empty()) {
    auto symbols = SymbolTable::load(specs);
    if (!symbols) return tl::unexpected(std::move(symbols).error());
    input.symbols = std::move(*symbols);
  }
  std::string events = options.trace_events;
  const std::string inside = session.empty() ? "" : session + "/trace-events-all";
  if (events.empty() && is_file(inside)) events = inside;
  if (events.empty() && is_file(tracetool::kInstalledTraceEvents))
    events = tracetool::kInstalledTraceEvents;
  if (events.empty()) return {};
  auto declared = tracetool::Declarations::read(events);
  if (!declared) return tl::unexpected(std::move(declared).error());
  input.declared = std::move(*declared);
  return {};
}

Result<std::unique_ptr<PageFeed>> open_feed(const TopOptions& options) {
  if (!options.input.paths.empty()) {
    auto feed = SessionFeed::open(options.input.paths[0]);
    if (!feed) return tl::unexpected(std::move(feed).error());
    return std::move(*feed);
  }
  auto feed = options.instance.empty() ? InstanceFeed::create(options.record)
                                       : InstanceFeed::attach(options.instance);
  if (!feed) return tl::unexpected(std::move(feed).error());
  return std::move(*feed);
}

// Checks that the selected VM runs on this host; it is known before its first event.
Result<void> check_vm(const VcpuFilter& vcpus) {
  if (vcpus.vm.empty()) return {};
  std::vector<VcpuThread> threads;
  std::vector<Vm> vms;
  for (const SessionVm& vm : record::running_vms()) {
    threads.push_back({ThreadId{vm.pid}, kNoVcpu});
    vms.push_back({.process = ThreadId{vm.pid}, .given = vm.name});
  }
  return VcpuFilter{{}, vcpus.vm}.check(threads, vms, "no VM runs on this host");
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::open(const TopOptions& options, Engine::OnFrame on_frame) {
  const std::vector<std::string>& paths = options.input.paths;
  if (!paths.empty() && !options.instance.empty()) {
    return fail(ErrorKind::kUsage, "--instance {}: give a session or an instance, not both",
                options.instance);
  }
  const EventClass classes = EventClass::kExits | EventClass::kInterrupts | EventClass::kHalts;
  std::unique_ptr<Watch> watch(new Watch);
  EngineOptions engine = options.engine;
  Input input;
  if (!paths.empty() && (paths.size() != 1 || !SessionFeed::is_open(paths[0]))) {
    const Selection& which = options.engine.which;
    auto opened = open_and_look(options.input,
                                {.vcpus = which.vcpus, .exits = which.exits, .names = true}, {});
    if (!opened) return tl::unexpected(std::move(opened).error());
    input = std::move(opened->input);
  } else {
    if (options.engine.which.from.time || options.engine.which.to.time) {
      return fail(ErrorKind::kUsage,
                  "--from and --to choose a part of a recording, and this one has not ended");
    }
    if (paths.empty()) {
      if (auto there = check_vm(engine.which.vcpus); !there)
        return tl::unexpected(std::move(there).error());
      engine.vm_runs = !engine.which.vcpus.vm.empty();
    }
    auto feed = open_feed(options);
    if (!feed) return tl::unexpected(std::move(feed).error());
    auto source = LiveSource::open(std::move(*feed), options.ring_bytes);
    if (!source) return tl::unexpected(std::move(source).error());
    watch->live_ = source->get();
    input.capabilities = watch->live_->capabilities();
    const std::string session = paths.empty() ? "" : paths[0];
    if (auto added = add_companions(options.input, session, input); !added) {
      return tl::unexpected(std::move(added).error());
    }
    input.sources.push_back(std::move(*source));
  }
  for (auto& source : input.sources) source->select(classes);
  watch->engine_ =
      std::make_unique<Engine>(std::move(input), std::move(engine), std::move(on_frame));
  const Selection& which = options.engine.which;
  if (auto window = check_window(watch->engine_->timeline(), which.from, which.to); !window)
    return tl::unexpected(std::move(window).error());
  if (watch->live_ != nullptr) {
    watch->engine_->before_close = [live = watch.get()] { live->learn(); };
    watch->learn();
  }
  return watch;
}

void Watch::learn() {
  std::vector<ThreadId> threads;
  for (const VcpuTotalsOf& vcpu : engine_->pipeline().exits().vcpus())
    threads.push_back(vcpu.thread);
  live_->feed().look_at_threads(threads);
  for (const auto& [thread, process] : live_->feed().threads()) engine_->learn(thread, process);
  for (const auto& [process, name] : live_->feed().vm_names()) engine_->learn_name(process, name);
}

Result<bool> Watch::step(Timestamp until) {
  if (ended_) return false;
  bool more = false;
  if (live_ != nullptr) {
    const auto fetched = live_->fetch();
    if (!fetched) return tl::unexpected(fetched.error());
    more = *fetched;
  }
  const Engine::State state = engine_->advance(until, kEventsAtOnce);
  if (state == Engine::State::kEnded) {
    const bool whole = engine_->timeline().status().has_value();
    if (whole && engine_->pipeline().is_window() && !engine_->pipeline().begin())
      return tl::unexpected(empty_window(engine_->timeline()));
    engine_->finish();
    ended_ = true;
    if (auto status = engine_->timeline().status(); !status) return tl::unexpected(status.error());
    return false;
  }
  if (live_ == nullptr) {
    const bool closed = state == Engine::State::kReached && engine_->pass_time(until);
    return closed || state == Engine::State::kMore;
  }
  if (state == Engine::State::kPending) {
    more |= engine_->pass_time(live_->complete());
    learn();
  }
  return more || state == Engine::State::kMore;
}

std::vector<int> Watch::polled() const {
  return live_ == nullptr || ended_ ? std::vector<int>() : live_->feed().polled();
}

}  // namespace trapline::live
