#include "merge/live/top.h"

#include <fmt/chrono.h>
#include <linux/capability.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/live/live_source.h"
#include "merge/live/page_feed.h"
#include "merge/live/prometheus.h"
#include "merge/live/screen.h"
#include "merge/live/view.h"
#include "merge/pass/first_look.h"
#include "merge/pass/selection.h"
#include "merge/record/doctor.h"
#include "merge/record/setup.h"
#include "merge/record/vm_names.h"

namespace trapline::live {
namespace {

constexpr Timestamp kForEver{std::numeric_limits<std::uint64_t>::max()};
constexpr std::uint64_t kDrawEvery = 50'000'000;  // ns
constexpr int kTickMs = 250;                      // how often a live source is read
// Events taken before signals and keys are checked again.
constexpr std::uint64_t kEventsAtOnce = 1u << 13;

// Returns a sentence for the case that no exits come. It gives the reason only for an instance of
// our own, in which KVM's events are switched on.
std::string no_exit_sentence(const TopOptions& options) {
  std::string why;
  if (options.input.paths.empty() && options.instance.empty())
    why = ": " + record::why_no_exit(record::look_at_host(), !record::running_vms().empty());
  return "no VM exit for two intervals" + why + "; trapline doctor checks this host";
}

// Returns an error (kUsage) if there is no terminal to draw on; it says what to use instead.
Result<void> can_draw() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO})
    if (::isatty(file) == 0)
      return fail(ErrorKind::kUsage,
                  "top: {} is not a terminal; in a pipe use: trapline top --batch",
                  file == STDIN_FILENO ? "stdin" : "stdout");
  const char* const given = std::getenv("TERM");
  const std::string_view terminal = given == nullptr ? "" : given;
  if (!terminal.empty() && terminal != "dumb") return {};
  return fail(ErrorKind::kUsage,
              "TERM={}: a terminal without a cursor; set TERM, or use: trapline top --batch",
              terminal);
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

// One run of `trapline top`: reads an instance, an open session or a recording, and gives the
// frames to the screen or to lines of JSON, and to the metrics.
class Run {
 public:
  explicit Run(const TopOptions& options)
      : options_(options), quiet_(options.engine.interval_ns, read_clock(ClockId::kMono)) {}

  Result<void> run(bool has_screen) {
    const bool is_live = options_.input.paths.empty();
    if (auto taken = is_live ? take_over_signals() : Result<void>(); !taken) return taken;
    if (auto can = has_screen ? can_draw() : Result<void>(); !can) return can;
    // Errors of the recording are printed before the terminal changes.
    if (auto opened = open(); !opened) return opened;
    if (auto taken = take_over_signals(); !taken) return taken;
    if (auto given_up = give_up_rights(has_screen); !given_up) return given_up;
    if (!options_.listen.empty()) {
      if (auto opened = assign(server_, MetricsServer::open(options_.listen)); !opened)
        return opened;
      server_->set(figures_.text());
    }
    if (has_screen) {
      view_.emplace(*engine_);
      if (live_ != nullptr) view_->save = [this] { return save(); };
    }
    const std::vector<std::string>& missing = engine_->input().missing;
    if (!missing.empty()) say(fmt::format("{}", fmt::join(missing, "; ")));
    if (has_screen) {
      screen_.emplace(options_.colours);
      return loop();
    }
    if (auto done = loop(); !done) return done;
    if (engine_->pipeline().exits().lacks_entries()) say(no_entries(engine_->timeline()).message);
    if (ended_ && live_ != nullptr) say(live_->feed().last_words());
    return written_;
  }

 private:
  // Makes signals end the run in order. For a live source, call it before an instance is made,
  // which must be removed at the end. Opening a recording makes nothing and may take long, so until
  // it is open, signals end the program.
  Result<void> take_over_signals() {
    return signals_ ? Result<void>() : assign(signals_, record::open_signals());
  }

  // Keeps the rights that top needs from here on: to see other users' processes and, if it writes
  // files, to write as the user who called sudo or to replace a file and keep the file's owner.
  Result<void> give_up_rights(bool saves) const {
    if (live_ == nullptr || ::geteuid() != 0) return {};
    const bool replaces_file = !options_.prometheus.empty();
    std::vector<int> kept{CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE};
    if (saves && invoking_user()) kept.insert(kept.end(), {CAP_SETUID, CAP_SETGID});
    if ((saves && !invoking_user()) || replaces_file) kept.push_back(CAP_DAC_OVERRIDE);
    if (replaces_file)
      kept.insert(kept.end(), {CAP_CHOWN, CAP_FOWNER});  // the file keeps its owner
    return keep_capabilities(kept);
  }

  Result<Input> open_live() {
    const std::vector<std::string>& paths = options_.input.paths;
    if (options_.engine.which.from.time || options_.engine.which.to.time) {
      return fail(ErrorKind::kUsage,
                  "--from and --to choose a part of a recording, and this one has not ended");
    }
    if (paths.empty()) {
      if (auto there = check_vm(options_.engine.which.vcpus); !there)
        return tl::unexpected(std::move(there).error());
    }
    auto feed =
        paths.empty() ? open_instance(options_.instance, options_.record) : open_session(paths[0]);
    if (!feed) return tl::unexpected(std::move(feed).error());
    auto source = LiveSource::open(std::move(*feed), options_.ring_bytes);
    if (!source) return tl::unexpected(std::move(source).error());
    live_ = source->get();
    Input input;
    input.capabilities = live_->capabilities();
    if (auto added = add_companions(options_.input, input); !added)
      return tl::unexpected(std::move(added).error());
    input.sources.push_back(std::move(*source));
    return input;
  }

  Result<void> open() {
    const std::vector<std::string>& paths = options_.input.paths;
    if (!paths.empty() && !options_.instance.empty()) {
      return fail(ErrorKind::kUsage, "--instance {}: give a session or an instance, not both",
                  options_.instance);
    }
    const Selection& which = options_.engine.which;
    Result<Input> input;
    if (!paths.empty() && (paths.size() != 1 || !is_open_session(paths[0]))) {
      auto opened = open_and_look(options_.input,
                                  {.vcpus = which.vcpus, .exits = which.exits, .names = true}, {});
      if (!opened) return tl::unexpected(std::move(opened).error());
      input = std::move(opened->input);
    } else {
      input = open_live();
    }
    if (!input) return tl::unexpected(std::move(input).error());
    for (auto& source : input->sources)
      source->select(EventClass::kExits | EventClass::kInterrupts | EventClass::kHalts |
                     EventClass::kFaults);
    EngineOptions engine = options_.engine;
    engine.vm_runs = paths.empty() && !which.vcpus.vm.empty();
    engine_ = std::make_unique<Engine>(std::move(*input), std::move(engine),
                                       [this](Frame&& frame) { take(std::move(frame)); });
    if (live_ == nullptr) return check_window(engine_->timeline(), which.from, which.to);
    engine_->before_close = [this] { learn(); };
    learn();
    return {};
  }

  void learn() {
    std::vector<ThreadId> threads;
    const Pipeline& pipeline = engine_->pipeline();
    for (const VcpuTotalsOf& vcpu : pipeline.exits().vcpus())
      if (pipeline.now(tid_of(vcpu.thread)) == vcpu.thread) threads.push_back(vcpu.thread);
    live_->feed().look_at_threads(threads);
    const KnownThreads& known = live_->feed().threads();
    for (const auto& [thread, process] : known.processes) engine_->known().set(thread, process);
    for (const auto& [process, name] : known.vm_names)
      if (!name.empty()) engine_->known().set_name(process, name);
  }

  // Takes what exists; of a recording only what is before `until`. Returns true if there may be
  // more immediately.
  Result<bool> step(Timestamp until) {
    if (ended_) return false;
    bool more = false;
    if (live_ != nullptr) {
      const auto fetched = live_->fetch();
      if (!fetched) return tl::unexpected(fetched.error());
      more = *fetched;
    }
    const Engine::State state = engine_->advance(until, kEventsAtOnce);
    if (state == Engine::State::kEnded) {
      const auto status = engine_->timeline().status();
      if (status && engine_->pipeline().is_window() && !engine_->pipeline().begin())
        return tl::unexpected(empty_window(engine_->timeline()));
      engine_->finish();
      ended_ = true;
      if (!status) return tl::unexpected(status.error());
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

  // Waits for a signal, the source's pages or a key. Returns false if a signal came or the terminal
  // is gone.
  bool wait(int milliseconds) const {
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
    if (screen_) polled.push_back({STDIN_FILENO, POLLIN, 0});
    if (live_ != nullptr && !ended_)
      for (const int fd : live_->feed().polled()) polled.push_back({fd, POLLIN, 0});
    if (::poll(polled.data(), polled.size(), milliseconds) <= 0) return true;
    const bool lost = screen_ && (polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    return polled[0].revents == 0 && !lost;
  }

  void print(const Frame& frame) {
    const std::string line = batch_line(frame, *engine_) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0)
      return;
    running_ = false;
    // If the reader of the pipe has gone, it has seen enough: no error.
    if (errno != EPIPE) written_ = fail("stdout: cannot write: {}", std::strerror(errno));
  }

  void take(Frame&& frame) {
    if (!running_) return;
    if (!options_.prometheus.empty() || server_) {
      figures_.add(frame, *engine_);
      const std::string text = figures_.text();
      if (!options_.prometheus.empty()) written_ = replace_file(options_.prometheus, text);
      if (server_) server_->set(text);
      if (!written_ && view_) say(written_.error().message);
      if (!written_ && !view_) running_ = false;
    }
    const bool exits_again = quiet_.add(frame, read_clock(ClockId::kMono));
    if (view_) {
      if (std::exchange(model_changes_, engine_->model_changes()) != engine_->model_changes())
        view_->clear();
      if (exits_again) view_->say("");
      last_ = frame.end;
      view_->add(std::move(frame));
      changed_ = true;
      return;
    }
    if (options_.to_batch) print(frame);
    if (++frames_ == options_.count) running_ = false;
    // Live, a VM may start later. A recording's names are checked at its end.
    if (live_ == nullptr || told_names_) return;
    const auto known = engine_->check_names();
    if (!known && !std::exchange(told_names_, true)) say(known.error().message);
  }

  // Returns up to which time to show; on the screen, a recording is shown at the pace at which it
  // was made.
  Timestamp until() {
    if (live_ != nullptr || !screen_) return kForEver;
    const auto first = engine_->first();
    if (!first) return Timestamp(1);
    const std::uint64_t now = read_clock(ClockId::kMono);
    if (started_ == 0) started_ = now;
    return Timestamp(first->ns() + (now - started_) + 1);
  }

  std::string save() const {
    const std::string name =
        fmt::format("top-{:%Y%m%d-%H%M%S}.trapline", fmt::localtime(std::time(nullptr)));
    const Timestamp from(last_.ns() > options_.save_ns ? last_.ns() - options_.save_ns : 0);
    const auto saved =
        save_session(*live_, live_->feed(), from, last_, name, options_.record.trapline_version);
    if (!saved) return saved.error().message;
    return fmt::format("saved the last {:.1f} s, {} events: trapline report {}",
                       static_cast<double>(elapsed(saved->from, saved->to)) / 1e9, saved->events,
                       name);
  }

  Result<void> loop() {
    while (running_) {
      const auto more = step(until());
      if (!more) return tl::unexpected(more.error());
      for (int key = -1; screen_ && running_ && (key = screen_->key()) != -1;) {
        running_ = view_->key(key);
        changed_ = true;
      }
      if (ended_ && !screen_) break;
      if (ended_ && !std::exchange(told_end_, true))
        say("this is the end of the recording: Left and Right step through it, q leaves");
      const std::uint64_t now = read_clock(ClockId::kMono);
      if (live_ != nullptr && quiet_.is_due(now)) say(no_exit_sentence(options_));
      // If frames come in quick succession, some are not drawn.
      if (screen_ && changed_ && (!*more || now - drawn_ > kDrawEvery)) {
        screen_->draw(view_->draw(screen_->style(), screen_->height()));
        changed_ = false;
        drawn_ = now;
      }
      if (running_) running_ = wait(*more ? 0 : kTickMs);
    }
    return {};
  }

  void say(const std::string& text) {
    if (!view_) return options_.say(text);
    view_->say(text);
    changed_ = true;
  }

  const TopOptions& options_;
  UniqueFd signals_;
  NoExitNotice quiet_;
  std::unique_ptr<Engine> engine_;
  LiveSource* live_ = nullptr;  // owned by the engine; null for a recording
  std::optional<View> view_;    // null without a screen
  std::optional<Screen> screen_;
  Figures figures_;
  std::unique_ptr<MetricsServer> server_;
  Result<void> written_;
  Timestamp last_;
  std::uint64_t started_ = 0, drawn_ = 0, model_changes_ = 0, frames_ = 0;
  bool running_ = true, ended_ = false, changed_ = true, told_end_ = false, told_names_ = false;
};

}  // namespace

Result<void> run_top(const TopOptions& options) {
  const bool no_screen = options.to_batch || !options.prometheus.empty() || !options.listen.empty();
  return Run(options).run(!options.to_batch && (!no_screen || ::isatty(STDOUT_FILENO) != 0));
}

}  // namespace trapline::live
