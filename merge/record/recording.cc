#include "merge/record/recording.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <sys/signalfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"
#include "merge/record/vm_names.h"
#include "merge/session/finish.h"
#include "merge/session/session_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

constexpr off_t kLargestKernel = 256u << 20;  // a vmlinux with debug information is larger

bool is_small_elf(const UniqueFd& file) {
  std::array<char, 4> magic{};
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_size <= kLargestKernel &&
         ::pread(file.get(), magic.data(), magic.size(), 0) == 4 &&
         std::memcmp(magic.data(),
                     "\x7f"
                     "ELF",
                     4) == 0;
}

Result<void> check_options(const RecordOptions& options) {
  const bool command = !options.command.empty();
  const auto needs_qemu = [](const char* option) {
    return fail(ErrorKind::kUsage,
                "{}: only for a QEMU that trapline record starts: "
                "trapline record {} … -- qemu-system-…",
                option, option);
  };
  if (command && options.pid != 0) {
    return fail(ErrorKind::kUsage, "--pid and a command: give one of them");
  }
  const bool functions = options.functions != Functions::kNone;
  if (!command && functions) return needs_qemu("--functions");
  if (!command && !options.user.empty()) return needs_qemu("--user");
  if (options.pid != 0 && ::kill(options.pid, 0) != 0 && errno == ESRCH) {
    return fail("--pid {}: there is no such process", options.pid);
  }
  return {};
}

Result<std::vector<std::string>> find_symbols(const RecordOptions& options, bool qemu) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& file : options.symbols) {
    if (const auto there = open_named_file(file, invoking_user()); !there) {
      return fail("--symbols {}", there.error().message);
    }
    files.push_back(fs::absolute(file, error).string());
  }
  if (!files.empty() || !qemu) return files;
  const auto kernel = option_value(options.command, "-kernel");
  const auto there = kernel ? open_named_file(*kernel, invoking_user()) : Result<UniqueFd>();
  if (there && is_small_elf(*there)) files.push_back(fs::absolute(*kernel, error).string());
  return files;
}

// In a build folder, or where it is installed.
Result<std::string> find_plugin() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string tried;
  for (const fs::path& place : {folder / "../plugin", folder / "../lib/trapline",
                                folder / ("../lib/" TRAPLINE_LIBRARY_ARCHITECTURE "/trapline")}) {
    const fs::path file = place.lexically_normal() / "libtrapline_plugin.so";
    if (fs::is_regular_file(file, error)) return file.string();
    tried += (tried.empty() ? "" : ", ") + file.string();
  }
  return fail("--functions: libtrapline_plugin.so is in none of {}", tried);
}

}  // namespace

Result<Target> look_at_target(const RecordOptions& options) {
  if (auto checked = check_options(options); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  Target target;
  if (!options.user.empty()) {
    auto user = find_user(options.user);
    if (!user) return tl::unexpected(std::move(user).error());
    target.user = std::move(*user);
  }
  if (!options.command.empty()) {
    auto program = find_program(options.command.front());
    if (!program) return tl::unexpected(std::move(program).error());
    target.qemu = is_qemu(options.command.front());
    if (target.qemu) target.facts = ask_qemu(*program, target.user);
  }
  if (options.functions != Functions::kNone && !target.qemu) {
    return fail(ErrorKind::kUsage, "--functions: {} is not a QEMU system emulator (qemu-system-…)",
                options.command.front());
  }
  if (options.monitor != nullptr) {
    const auto words = command_line_of(options.pid);
    const auto qemu = std::ranges::find_if(words, is_qemu);
    if (qemu != words.end()) target.facts.trace_events = find_trace_events(*qemu);
  }
  auto symbols = find_symbols(options, target.qemu);
  if (!symbols) return tl::unexpected(std::move(symbols).error());
  target.symbols = std::move(*symbols);
  return target;
}

Result<QemuAdditions> complete_command(const RecordOptions& options, const Target& target,
                                       const std::string& marker, const Instance& instance,
                                       const std::string& folder) {
  if (!target.qemu) return QemuAdditions{options.command, {}, {}};
  QemuWishes wishes;
  wishes.events = options.qemu_events;
  wishes.marker = marker;
  wishes.functions = options.functions;
  // A user who may not pass through tracefs finds the instance's marker in the top-level one's
  // place.
  if (!target.user) wishes.instance = instance.name();
  if (options.functions != Functions::kNone) {
    std::error_code error;
    if (!named_plugin(options.command)) {
      auto plugin = find_plugin();
      if (!plugin) return tl::unexpected(std::move(plugin).error());
      wishes.plugin = std::move(*plugin);
    }
    wishes.plugin_out = (fs::absolute(folder, error) / "uftrace.data").lexically_normal();
    wishes.symbols = target.symbols;
  }
  return complete_qemu(options.command, target.facts, wishes);
}

void copy_companions(const Folder& session, const RecordOptions& options, const Target& target) {
  const auto copy = [&](const std::string& from, const std::string& to) -> Result<void> {
    const auto source = open_named_file(from, session.identity());
    if (!source) return tl::unexpected(source.error());
    const auto copied = session.create(to);
    if (!copied) return tl::unexpected(copied.error());
    std::vector<char> part(std::size_t{1} << 20);
    for (;;) {  // by hand: of /proc no sendfile() can copy
      const ssize_t size = ::read(source->get(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return fail("{}", std::strerror(errno));
      if (size == 0) return {};
      const std::string_view bytes(part.data(), static_cast<std::size_t>(size));
      if (auto wrote = write_all(copied->get(), bytes, session.path_of(to)); !wrote) return wrote;
    }
  };
  const auto say = [&](const Result<void>& done, const std::string& file) {
    if (!done) options.say(fmt::format("{}: not copied: {}", file, done.error().message));
  };
  if (!target.symbols.empty()) {
    if (auto made = session.make_folder("symbols"); !made) options.say(made.error().message);
  }
  for (const std::string& file : target.symbols) {
    say(copy(file, "symbols/" + fs::path(file).filename().string()), file);
  }
  const std::string& events = target.facts.trace_events;
  if (!events.empty()) say(copy(events, "trace-events-all"), events);
}

namespace {

constexpr std::uint64_t kGrace = 10 * kSecond;

}  // namespace

bool Recording::write_sync() {
  const int cpu = ::sched_getcpu();
  if (!sync_.write_series(marker_.get())) return false;
  const bool cycles = options_.clock == "x86-tsc" || options_.clock == "counter";
  if (cycles || sync_.brackets().empty()) return true;
  streams_->expect_sync(sync_.brackets().back().series, cpu, ::sched_getcpu());
  return true;
}

void Recording::drain(std::size_t cpu) {
  if (!tracing_) return;
  if (auto moved = streams_->drain(cpu); !moved) cut_short(moved.error());
}

// The recording ends here, the command goes on.
void Recording::cut_short(const Error& error) {
  broken_ = error;
  session_.ended_by = error.message;
  stop_tracing();
  const bool is_there = check_presence(*folder_).has_value();
  auto closed = close_session();
  if (!closed && is_there) say(closed.error().message);
  const std::string stopped =
      fmt::format("{}; recording has stopped{}", error.message,
                  is_there ? ", what came before is in " + folder_->path() : "");
  if (command_ && !command_->reap()) {
    say(stopped + "; the command goes on");
  } else {
    if (is_there) say(stopped);  // else finish() says why
    running_ = false;
  }
}

// What the streams have learned of the recording.
void Recording::note_streams() {
  for (const SyncStamp& sync : streams_->take_stamps()) {
    sync_.stamp(sync.series, sync.index, sync.stamp);
  }
  if (const SnapshotFacts* facts = streams_->snapshot()) session_.snapshot_facts = *facts;
  const std::string& never = session_.snapshot_facts.cannot_hit;
  if (!never.empty() && !std::exchange(warned_, true)) {
    say(fmt::format("warning: --snapshot-on '{}': {}", session_.snapshot_on, never));
  }
}

// Whether another process has changed the instance since the last look.
bool Recording::look_at_instance() {
  const std::vector<std::string> sentences = others_->look();
  session_.changes = others_->changes();
  for (const std::string& sentence : sentences) {
    session_.warnings.push_back(sentence);
    say("warning: " + sentence);
  }
  return !sentences.empty();
}

// The small files as they are to be now, by their names.
std::map<std::string, std::string> Recording::texts() {
  note_streams();
  session_.seen_threads = threads_.threads();
  session_.vms = vm_names_.vms(session_.seen_threads);
  session_.cgroups = cgroups_.list();
  session_.sync = sync_.brackets();
  const std::string own = fmt::format("{} trapline\n", ::getpid());  // of the sync records
  return {{"raw/cmdlines", own + threads_.cmdlines()},
          {"session.json", to_text(facts_of(session_))}};
}

void Recording::on_tick() {
  std::uint64_t ticks = 0;
  (void)!::read(timer_.get(), &ticks, sizeof ticks);
  if (!tracing_) return;
  if (++ticks_ % ticks_a_second() != 0) {
    if (auto flushed = streams_->flush(); !flushed) return cut_short(flushed.error());
    if (ticks_ % (ticks_a_second() / kSyncs) == 0) sync({});
    return;
  }
  const bool meddled = look_at_instance();
  note_streams();  // of the last series, what came later than its flush
  (void)write_sync();
  const std::size_t hits = session_.snapshot_facts.first_hits.size();
  if (auto flushed = streams_->flush(); !flushed) return cut_short(flushed.error());
  note_streams();
  const bool changed =
      look_at_threads() || meddled || session_.snapshot_facts.first_hits.size() != hits;
  sync(changed ? texts() : std::map<std::string, std::string>());
}

void Recording::sync(std::map<std::string, std::string> texts) {
  if (const auto failed = disk_->error()) return cut_short(*failed);
  SyncJob job = streams_->sync_job();
  job.texts = std::move(texts);
  disk_->ask(std::move(job));
}

void Recording::ask_to_end(int signal, const char* why) {
  if (session_.ended_by.empty()) session_.ended_by = why;
  if (!command_) {
    running_ = false;
    return;
  }
  command_->signal(signal);
  asked_at_ = read_clock(ClockId::kMono);
  ++asked_;
}

void Recording::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const int number = static_cast<int>(info.ssi_signo);
  // A terminal sends Ctrl-C to the command as well.
  const bool from_terminal = info.ssi_code == SI_KERNEL;
  ask_to_end(asked_ > 0 ? SIGKILL : from_terminal ? 0 : number, "signal");
}

void Recording::on_end_of_target() {
  if (command_ && !command_->reap()) return;
  if (session_.ended_by.empty()) session_.ended_by = command_ ? "command" : "process";
  running_ = false;
}

void Recording::look_after_grace() {
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

// True if a virtual machine has another thread, or one another name. Of all others what the kernel
// remembers is kept.
bool Recording::look_at_threads() {
  auto saved = read_text(instance_->tracefs() + "/saved_cmdlines");
  if (saved) threads_.add_names(*saved);
  const bool new_threads = threads_.update();
  cgroups_.update(threads_.threads());
  return vm_names_.update(threads_.threads()) || new_threads;
}

// Until the first tick, at ages that double: a short run has ended by then.
void Recording::look_early() {
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (next_look_ == 0 || now < next_look_) return;
  (void)look_at_threads();
  const std::uint64_t age = now - started_;
  next_look_ = age < kSecond ? now + std::max(age, kFirstLook) : 0;
}

void Recording::loop() {
  enum : std::size_t { kSignals, kTimer, kTarget, kStreams };
  std::vector<pollfd> polled(kStreams + streams_->size());
  while (running_) {
    polled[kSignals] = {signals_.get(), POLLIN, 0};
    polled[kTimer] = {timer_.get(), POLLIN, 0};
    polled[kTarget] = {pidfd_.get(), POLLIN, 0};
    for (std::size_t i = 0; i < streams_->size(); ++i) {
      polled[kStreams + i] = {tracing_ ? streams_->fd(i) : -1, POLLIN, 0};
    }
    const int wait = wait_ms({deadline_, next_look_});
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) break;
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
void Recording::stop_tracing() {
  if (!tracing_) return;
  tracing_ = false;
  (void)look_at_instance();
  if (!broken_) {
    note_streams();
    (void)write_sync();
  }
  if (qemu_events_) {
    for (const std::string& left : qemu_events_->stop()) say("warning: " + left);
  }
  (void)instance_->control().switch_off();
  session_.end_real_ns = read_clock(ClockId::kReal);
  ended_ = read_clock(ClockId::kMono);
  (void)look_at_threads();
  if (broken_) {
    streams_->settle();
  } else if (auto finished = streams_->finish(); !finished) {
    broken_ = finished.error();
    session_.ended_by = broken_->message;
    say(broken_->message + "; the recording lacks its end");
  }
  disk_->ask(streams_->sync_job());  // what fails only now is cut off like what failed before
  disk_->stop();
  const bool is_there = check_presence(*folder_).has_value();
  if (const auto failed = disk_->error(); failed && is_there) {
    const std::uint64_t dropped = streams_->keep_only(disk_->durable());
    say(fmt::format("{:.1f} MiB of events that were not known to be on the disk are left out",
                    mib(dropped)));
    if (!broken_) say(failed->message + "; the recording lacks its end");
    if (!broken_) broken_ = failed;
    session_.ended_by = broken_->message;
  }
  note_streams();  // before the files are closed
  session_.losses = streams_->losses(*instance_);
  if (const std::string warning = threads_.warning(); !warning.empty()) {
    session_.warnings.push_back(warning);
    say("warning: " + warning);
  }
}

Result<void> Recording::close_session() {
  folder_->follow_rename();
  const std::vector<std::string> stats = streams_->stats(*instance_);
  streams_->close();
  // First of all the reserve: what follows must have room on a full disk.
  (void)folder_->remove("raw/reserve");
  const auto present = check_presence(*folder_);
  if (!present) return present;
  // Both are better than nothing where the disk is nearly full.
  for (const auto& [name, text] : texts()) (void)folder_->replace(name, text, 0600, Durable::kYes);
  std::vector<std::uint64_t> torn;
  auto finished = finish_locked(*folder_, stats, broken_ ? &torn : nullptr);
  add_torn(torn, session_.losses);
  session_.closed = finished.has_value();
  auto wrote = write_session(*folder_, session_);
  lock_.reset();
  if (!finished) {
    return fail("{}; the pages are in {}/raw; once there is room: trapline record --finish {}",
                finished.error().message, folder_->path(), shell_text({folder_->path()}));
  }
  if (auto moved = earlier_.make_way(*folder_); !moved)
    say(fmt::format("warning: {}; the recording is {}", moved.error().message, folder_->path()));
  return wrote;
}

Result<int> Recording::finish() {
  stop_tracing();
  Result<void> closed;
  if (!session_.closed) {
    if (command_) session_.exit_status = command_->reap();
    closed = close_session();
  } else if (command_) {
    session_.exit_status = command_->reap();
    (void)write_session(*folder_, session_);
  }
  marker_.reset();
  const bool watched = others_->sees_all();
  others_.reset();
  if (auto removed = instance_->remove(); !removed) say(removed.error().message);
  if (!closed) return tl::unexpected(std::move(closed).error());
  const Outcome outcome{*folder_, streams_->written(), streams_->read(),
                        !broken_, ended_ - started_,   watched};
  for (const std::string& line : summary(session_, outcome)) say(line);
  const int status = session_.exit_status.value_or(0);
  return status == 0 && broken_ ? 1 : status;
}

}  // namespace trapline::record
