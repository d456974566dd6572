#include "merge/record/setup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "backend_ftrace/base/inherited.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/doctor.h"
#include "merge/record/page_reader.h"
#include "merge/record/threads.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

// In bytes: what finish.cc copies at once, session.json twice, and the tail of trace.dat.
constexpr off_t kReserve = 3 << 20;
constexpr int kLowestMarker = 64;  // above the descriptors that a command uses itself

Result<void> set_clock(const Instance& instance, const std::string& clock) {
  if (clock == "counter") {
    return fail(ErrorKind::kUsage,
                "--clock counter: it counts events, and a recording needs times; use mono");
  }
  if (instance.control().set("trace_clock", clock)) return {};
  std::string clocks = instance.control().get("trace_clock").value_or("");
  std::erase_if(clocks, [](char c) { return c == '[' || c == ']'; });
  return fail(ErrorKind::kUsage, "--clock {}: this kernel has no such clock; it has: {}", clock,
              trimmed(clocks));
}

// Traces the functions of KVM's modules, in all threads or in those of `pid`. If the filter matched
// no function, there would be no filter, and all functions of the kernel would be traced.
Result<void> trace_functions(const Instance& instance, pid_t pid) {
  const FtraceControl& control = instance.control();
  if (control.get("available_tracers").value_or("").find("function_graph") == std::string::npos) {
    return fail(
        "--kernel-functions: this kernel has no function_graph tracer in instances; Linux 6.11 and "
        "later with CONFIG_FUNCTION_GRAPH_TRACER has it (trapline doctor)");
  }
  for (const char* module : {"kvm", "kvm_intel", "kvm_amd"}) {
    const auto filter = fmt::format("*:mod:{}", module);
    if (auto set = control.append("set_ftrace_filter", filter); !set) return set;
  }
  if (control.get("set_ftrace_filter").value_or("#").starts_with('#')) {
    return fail(
        "--kernel-functions: KVM is no module of this kernel, or not loaded: its functions cannot "
        "be told from others");
  }
  if (pid != 0) {
    if (auto set = control.set("options/function-fork", "1"); !set) return set;
    for (const pid_t tid : tasks_of(pid))
      if (auto set = control.append("set_ftrace_pid", std::to_string(tid)); !set) return set;
  }
  return control.set("current_tracer", "function_graph");
}

Result<void> set_up(const Instance& instance, const RecordOptions& options,
                    const std::vector<EventName>& events) {
  const auto cpus = count_cpus(instance);
  if (!cpus) return tl::unexpected(cpus.error());
  allow_streams(*cpus);
  if (auto set = set_clock(instance, options.clock); !set) return set;
  if (auto set = instance.control().set_buffer_kb(options.buffer_kb); !set) {
    return fail("{}; give less: --buffer-size SIZE", set.error().message);
  }
  // Wakes a waiting reader when a quarter of the buffer is full: early enough to lose nothing, and
  // seldom enough to cost nothing. Older kernels wake it at the first page.
  (void)instance.control().set("buffer_percent", "25");
  // Otherwise --sched and --syscalls would record the recorder's own work. Older kernels do not
  // have this file.
  (void)instance.control().set("set_event_notrace_pid", std::to_string(::getpid()));
  if (options.kernel_functions) {
    if (auto traced = trace_functions(instance, options.pid); !traced) return traced;
  }
  return enable_events(instance, events, options.events);
}

Result<TriggerMatcher> open_watch(const Instance& instance, const RecordOptions& options,
                                  const std::vector<EventName>& events) {
  if (counts_cycles(options.clock)) {
    return fail(ErrorKind::kUsage, "--snapshot-on: --clock {} does not count nanoseconds",
                options.clock);
  }
  auto texts = formats_of(instance, events);
  if (!texts) return tl::unexpected(std::move(texts).error());
  auto formats = kernel_events::Formats::parse("this kernel", std::move(*texts));
  if (!formats) return tl::unexpected(std::move(formats).error());
  if (const auto& read = formats->texts().status(); !read) return tl::unexpected(read.error());
  return TriggerMatcher::open(options.snapshot->trigger, std::move(*formats));
}

}  // namespace

bool counts_cycles(std::string_view clock) { return clock == "x86-tsc"; }

Result<trace_dat::StartFacts> start_facts(const Instance& instance) {
  trace_dat::StartFacts facts;
  if (auto counted = assign(facts.cpus, count_cpus(instance)); !counted)
    return tl::unexpected(std::move(counted).error());
  facts.page_size = page_size_of(instance);
  facts.clocks = trimmed(instance.control().get("trace_clock").value_or(""));
  utsname name{};
  ::uname(&name);
  facts.uname = fmt::format("{} {} {} {} {}", name.sysname, name.nodename, name.release,
                            name.version, name.machine);
  return facts;
}

std::size_t page_size_of(const Instance& instance) {
  const auto kb =
      parse_number(trimmed(instance.control().get("buffer_subbuf_size_kb").value_or("")));
  return kb && *kb != 0 ? *kb * 1024 : static_cast<std::size_t>(::getpagesize());
}

// A CPU that cannot be examined is an Error, since stopping there would miss its events.
Result<unsigned> count_cpus(const Instance& instance) {
  for (unsigned cpus = 0;; ++cpus) {
    const std::string file = instance.path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpus));
    if (::access(file.c_str(), F_OK) == 0) continue;
    if (errno == ENOENT && cpus > 0) return cpus;
    return fail("{}: {}", file, std::strerror(errno));
  }
}

Result<ReadyInstance> make_instance(const RecordOptions& options) {
  auto root = find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  for (const std::string& line : remove_leftovers(*root)) options.say(line);
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);  // a CPU that is off has no buffer
  const auto cpus = static_cast<std::uint64_t>(std::max(online, 1L));
  if (auto checked = check_buffer_size(options.buffer_kb, cpus, available_memory_kb()); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  auto instance = Instance::create(options.instance);
  if (!instance) return tl::unexpected(std::move(instance).error());
  auto events = choose_events(*root, options.events);
  if (!events) return tl::unexpected(std::move(events).error());
  ReadyInstance ready{std::move(*instance), std::move(*events), {}};
  if (options.snapshot) {
    auto watch = open_watch(ready.instance, options, ready.events);
    if (!watch) return tl::unexpected(std::move(watch).error());
    ready.watch.emplace(std::move(*watch));
  }
  if (auto set = set_up(ready.instance, options, ready.events); !set) {
    return tl::unexpected(std::move(set).error());
  }
  return ready;
}

Result<ReadyInstance> attach_instance(const RecordOptions& options) {
  const std::string& name = *options.from_instance;
  auto instance = Instance::attach(name, "--from-instance");
  if (!instance) return tl::unexpected(std::move(instance).error());
  if (maker_of(name) == Maker::kAlive) {
    return fail(ErrorKind::kUsage,
                "--from-instance {}: a trapline that runs reads this instance: its session can be "
                "read while it is recorded",
                name);
  }
  auto events = choose_events(instance->tracefs(), {.kvm = false, .patterns = {"*:*"}});
  if (!events) return tl::unexpected(std::move(events).error());
  return ReadyInstance{std::move(*instance), std::move(*events), {}};
}

Result<kernel_events::FormatTexts> formats_of(const Instance& instance,
                                              std::vector<EventName> events) {
  kernel_events::FormatTexts texts;
  texts.long_size = sizeof(long);
  events.push_back({"ftrace", "print"});
  for (const EventName& event : events) {
    const std::string path =
        fmt::format("{}/events/{}/{}/format", instance.tracefs(), event.system, event.name);
    auto text = read_text(path);
    if (!text) return tl::unexpected(std::move(text).error());
    texts.formats.push_back({event.system, std::move(*text)});
  }
  return texts;
}

std::vector<std::string> unseen_marker_writers(const Instance& instance, pid_t pid) {
  if (instance.control().has(FtraceControl::kCopyMarker)) return {};
  std::vector<std::string> warnings;
  for (const pid_t writer : numbers_in("/proc")) {
    if (pid != 0 && writer != pid) continue;
    const fs::path folder = fmt::format("/proc/{}", writer);
    std::error_code ignored;
    for (const auto& file : fs::directory_iterator(folder / "fd", ignored)) {
      const std::string target = fs::read_symlink(file.path(), ignored).string();
      if (!target.ends_with("/trace_marker") || target.find("/instances/") != std::string::npos) {
        continue;
      }
      warnings.push_back(fmt::format(
          "{} (PID {}) writes its trace events into {}, which this kernel does not copy into the "
          "recording: they will be missing; start it with trapline record -- COMMAND, or give it "
          "{}",
          printable(trimmed(read_text(folder / "comm").value_or("a process"))), writer,
          printable(target), instance.path("trace_marker")));
      break;
    }
  }
  return warnings;
}

Result<UniqueFd> open_marker(const Instance& instance, const std::optional<User>& user) {
  const std::string path = instance.path("trace_marker");
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  // Opening /proc/self/fd/N opens the file anew, with the user's own rights.
  if (user && (::fchown(fd.get(), static_cast<uid_t>(-1), user->gid) != 0 ||
               ::fchmod(fd.get(), 0620) != 0)) {
    return fail("{}: cannot be given to {}: {}", path, user->name, std::strerror(errno));
  }
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowestMarker));
  if (!high) return fail("{}: {}; {}", path, std::strerror(EMFILE), kMoreFiles);
  return high;
}

Result<void> follow_process(const Instance& instance, pid_t pid) {
  // Sets the option first, then adds the existing threads, until no new one appears.
  if (auto set = instance.control().set("options/event-fork", "1"); !set) return set;
  std::set<pid_t> known;
  for (bool more = true; more;) {
    more = false;
    std::vector<pid_t> threads = tasks_of(pid);
    if (threads.empty()) break;
    for (const pid_t tid : kernel_threads_of(pid)) threads.push_back(tid);
    for (const pid_t tid : threads) {
      if (!known.insert(tid).second) continue;
      if (auto set = instance.control().append("set_event_pid", std::to_string(tid)); !set) {
        return set;
      }
      more = true;
    }
  }
  if (known.empty()) return fail("--pid {}: there is no such process", pid);
  return {};
}

Result<void> reserve(const Folder& session) {
  const auto fd = session.create("raw/reserve");
  if (!fd) return tl::unexpected(fd.error());
  const int cause = ::posix_fallocate(fd->get(), 0, kReserve);
  if (cause != 0 && cause != EOPNOTSUPP && cause != EINVAL) {
    return fail("{}: {}; a session sets {} MiB aside for its end", session.path(),
                why_not_written(cause), kReserve >> 20);
  }
  return {};
}

Result<void> open_page_files(SessionWriter& session, const Instance& instance,
                             const RecordOptions& options, const std::vector<EventName>& events) {
  auto facts = start_facts(instance);
  if (!facts) return tl::unexpected(std::move(facts).error());
  // An instance's events are from before this process began, so trace.dat gets 0 as the recorder's
  // pid.
  const bool held = options.from_instance.has_value();
  facts->version = trace_dat::RecorderText{"trapline " + options.trapline_version,
                                           held ? 0 : ::getpid(), options.pid}
                       .text();
  // Stacks may be on even in our own instance, which inherits the options of the top level.
  const bool has_stacks =
      trimmed(instance.control().get("options/stacktrace").value_or("1")) != "0";
  const bool all = held || options.kernel_functions || has_stacks;
  const auto head = trace_dat_head(instance.tracefs(), events, facts->page_size,
                                   all ? TextSymbols::kAll : TextSymbols::kPrinted);
  if (!head) return tl::unexpected(head.error());
  return session.open_files(*head, std::move(*facts));
}

Result<UniqueFd> open_signals(int more) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGQUIT}) ::sigaddset(&set, number);
  // signalfd also reports a blocked signal that is ignored, but nohup's SIGHUP must not end a
  // recording.
  if (!is_ignored_by_caller(SIGHUP)) ::sigaddset(&set, SIGHUP);
  if (more != 0) ::sigaddset(&set, more);
  // write() returns an error instead.
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0)
    return fail("signals: {}", std::strerror(errno));
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail("signalfd: {}", std::strerror(errno));
  return fd;
}

int wait_ms(std::initializer_list<std::uint64_t> times) {
  std::uint64_t next = ~std::uint64_t{0};
  for (const std::uint64_t time : times)
    if (time != 0) next = std::min(next, time);
  if (next == ~std::uint64_t{0}) return -1;
  const std::uint64_t now = read_clock(ClockId::kMono);
  if (now >= next) return 0;
  return static_cast<int>(std::min<std::uint64_t>((next - now) / 1'000'000 + 1, 60'000));
}

}  // namespace trapline::record
