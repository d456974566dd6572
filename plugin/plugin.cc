// The two names that QEMU looks up, and the wrappers that hide how the callbacks changed with API
// version 7.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/worker.h"
#include "plugin/accelerator.h"
#include "plugin/guest_program.h"
#include "plugin/sandbox.h"
#include "plugin/session.h"

#define TRAPLINE_EXPORT extern "C" __attribute__((visibility("default")))

// QEMU reads this before it calls install(), so it is set when the library is loaded.
TRAPLINE_EXPORT int qemu_plugin_version;
int qemu_plugin_version = trapline::qemu::detect_version();

namespace trapline {
namespace {

using qemu::PluginId;

// Callbacks of API 2 to 6 get the plugin's id first; those of API 7 get the user's pointer last.
namespace old_api {
void started(PluginId, unsigned vcpu) { vcpu_started(vcpu); }
void idle(PluginId, unsigned vcpu) { vcpu_idle(vcpu); }
void translate(PluginId, qemu::Block* block) { translated(block); }
void dropped(PluginId) { flushed(); }
void discontinued(PluginId, unsigned vcpu, int type, std::uint64_t from, std::uint64_t to) {
  discontinuity(vcpu, type, from, to);
}
void stopped(PluginId, unsigned vcpu) { vcpu_ended(vcpu); }
// The parameters are QEMU's. NOLINTNEXTLINE(readability-function-size)
void called(PluginId, unsigned vcpu, std::int64_t number, std::uint64_t, std::uint64_t,
            std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
            std::uint64_t) {
  system_called(vcpu, number);
}
void exiting(PluginId, void*) { ended(); }
}  // namespace old_api
namespace new_api {
void started(unsigned vcpu, void*) { vcpu_started(vcpu); }
void idle(unsigned vcpu, void*) { vcpu_idle(vcpu); }
void translate(qemu::Block* block, void*) { translated(block); }
void dropped(void*) { flushed(); }
void discontinued(unsigned vcpu, int type, std::uint64_t from, std::uint64_t to, void*) {
  discontinuity(vcpu, type, from, to);
}
void stopped(unsigned vcpu, void*) { vcpu_ended(vcpu); }
// The parameters are QEMU's. NOLINTNEXTLINE(readability-function-size)
void called(unsigned vcpu, std::int64_t number, std::uint64_t, std::uint64_t, std::uint64_t,
            std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, void*) {
  system_called(vcpu, number);
}
void exiting(void*) { ended(); }
}  // namespace new_api

// Calls register(id, callback) or register(id, callback, data).
template <typename Old, typename New>
void subscribe(void* function, PluginId id, Old old_callback, New new_callback) {
  if (session->api.version >= 7)
    reinterpret_cast<void (*)(PluginId, New, void*)>(function)(id, new_callback, nullptr);
  else
    reinterpret_cast<void (*)(PluginId, Old)>(function)(id, old_callback);
}

void subscribe_to_all(PluginId id) {
  const qemu::Api& api = session->api;
  subscribe(api.register_vcpu_init, id, old_api::started, new_api::started);
  subscribe(api.register_vcpu_idle, id, old_api::idle, new_api::idle);
  subscribe(api.register_translation, id, old_api::translate, new_api::translate);
  subscribe(api.register_flush, id, old_api::dropped, new_api::dropped);
  if (session->user_mode) {
    subscribe(api.register_vcpu_exit, id, old_api::stopped, new_api::stopped);
    if (api.register_syscall != nullptr)
      subscribe(api.register_syscall, id, old_api::called, new_api::called);
    ::pthread_atfork(
        before_fork, [] { session->translation.unlock(); }, forked);
  }
  constexpr int kTraps = qemu::kInterrupt | qemu::kException;
  if (api.register_discontinuity != nullptr && !session->user_mode) {
    if (api.version >= 7)
      reinterpret_cast<void (*)(PluginId, int, decltype(&new_api::discontinued), void*)>(
          api.register_discontinuity)(id, kTraps, new_api::discontinued, nullptr);
    else
      reinterpret_cast<void (*)(PluginId, int, decltype(&old_api::discontinued))>(
          api.register_discontinuity)(id, kTraps, old_api::discontinued);
  }
  if (api.version >= 7)
    reinterpret_cast<void (*)(PluginId, decltype(&new_api::exiting), void*)>(api.register_atexit)(
        id, new_api::exiting, nullptr);
  else
    reinterpret_cast<void (*)(PluginId, decltype(&old_api::exiting), void*)>(api.register_atexit)(
        id, old_api::exiting, nullptr);
}

UftraceInfo describe(const Session& s) {
  const Architecture& arch = *s.arch;
  UftraceInfo info;
  info.features = kOurFeatures;
  info.exename = s.user_mode ? s.program.file.path : fmt::format("qemu-system-{}", arch.name);
  for (const std::string& word : command_line()) info.cmdline += word + " ";
  info.cpus = std::max(1U, std::thread::hardware_concurrency());
  info.cpu_description = fmt::format("guest: {}", arch.name);
  char hostname[256] = "";
  ::gethostname(hostname, sizeof hostname - 1);
  info.hostname = hostname;
  const std::time_t now = std::time(nullptr);
  char date[64] = "";
  std::tm local{};
  if (::localtime_r(&now, &local) != nullptr)
    std::strftime(date, sizeof date, "%a %b %e %T %Y", &local);
  info.record_date = date;
  info.elapsed_time = "0.000000000 sec";
  info.version = "trapline plugin";
  return info;
}

constexpr std::string_view kContexts[] = {"vcpu", "privilege", "stack"};

// The guest's functions: the facts that the callbacks need, and the names to write.
struct LoadedSymbols {
  SymbolTable table;
  SymbolFiles written;
};

// Returns whether the file is skipped: QEMU's sandbox denies the worker that reads ELF files, so
// their symbols must be added after the run.
bool is_left_for_afterwards(const SymbolFileSpec& spec, const std::string& out) {
  if (Worker::forbidden().empty() || !is_elf_file(spec.path)) return false;
  std::fprintf(stderr,
               "trapline plugin: %s is not read: QEMU's -sandbox spawn=deny allows no process for "
               "it; after the run: trapline symbols -o %s %s@0x%llx\n",
               spec.path.c_str(), out.c_str(), spec.path.c_str(),
               static_cast<unsigned long long>(spec.offset));
  return true;
}

Result<SymbolFiles> format_files(const std::vector<SymbolFile>& files,
                                 const std::vector<std::uint64_t>& offsets) {
  std::vector<PlacedSymbols> placed;
  for (std::size_t i = 0; i < files.size(); ++i) placed.push_back({&files[i], offsets[i], ""});
  return format_symbol_files(placed, false);
}

Result<LoadedSymbols> load_symbols(Session& s) {
  if (children_are_denied()) Worker::forbid("QEMU's -sandbox spawn=deny allows no children");
  LoadedSymbols loaded;
  std::vector<SymbolFile> files;
  std::vector<std::uint64_t> offsets;
  for (const SymbolFileSpec& spec : s.options.symbols) {
    if (is_left_for_afterwards(spec, s.options.out)) continue;
    auto file = load_symbol_file(spec.path);
    // A stripped program runs without names; name_functions() says so.
    if (!file && s.user_mode && spec == s.program.file) continue;
    if (!file) return tl::unexpected(std::move(file).error());
    loaded.table.add(*file, spec.offset);
    files.push_back(std::move(*file));
    offsets.push_back(spec.offset);
  }
  loaded.table.build();
  if (s.options.to_directory) {
    auto formatted = format_files(files, offsets);
    if (!formatted) return tl::unexpected(std::move(formatted).error());
    loaded.written = std::move(*formatted);
  }
  if (s.options.code_of_symbols) {
    if (files.empty()) return fail(ErrorKind::kUsage, "code=symbols needs symbols=FILE");
    for (std::size_t i = 0; i < files.size(); ++i)
      for (const AddressRange& text : files[i].text)
        s.options.code.push_back({text.start + offsets[i], text.end + offsets[i]});
  }
  return loaded;
}

Result<void> choose_functions(Session& s, const SymbolTable& table) {
  auto filter = SymbolFilter::make(s.options, table, s.arch->return_thunks);
  if (!filter) return tl::unexpected(std::move(filter).error());
  s.filter = std::move(*filter);
  for (const auto& [text, address, has] : {std::tie(s.options.start, s.start_address, s.has_start),
                                           std::tie(s.options.stop, s.stop_address, s.has_stop)}) {
    if (text.empty()) continue;
    auto found = address_of(text, table);
    if (!found) return tl::unexpected(std::move(found).error());
    address = *found;
    has = true;
  }
  return {};
}

// Opens the marker of the options, else the one that the program which started QEMU passed in the
// environment.
Result<Marker> open_marker(const PluginOptions& options) {
  std::string error;
  std::optional<Marker> marker;
  const char* fd = std::getenv("TRAPLINE_FTRACE_FD");
  const char* instance = std::getenv("TRAPLINE_FTRACE_INSTANCE");
  if (!options.instance.empty() || !options.tracefs.empty()) {
    marker = Marker::open({options.instance, options.tracefs}, &error);
  } else if (fd != nullptr && *fd != '\0') {
    const auto number = parse_number(fd);
    if (!number || *number > INT_MAX)
      return fail("output=ftrace: TRAPLINE_FTRACE_FD={} is not the number of a descriptor", fd);
    marker = Marker::from_fd(static_cast<int>(*number), &error);
  } else {
    marker = Marker::open({instance != nullptr ? instance : "", ""}, &error);
  }
  if (!marker) return fail("output=ftrace: {}", error);
  return std::move(*marker);
}

// Adds the program's own symbols, at the addresses where it was loaded; symbols= may name more.
// Runs in the program's first thread.
Result<void> find_program(Session& s) {
  const auto maps = read_text("/proc/self/maps");
  Guest guest(*s.arch, s.api);
  guest.find_registers();
  auto program = find_guest_program(maps.value_or(""), command_line(), guest.program_counter());
  if (!program)
    return fail(
        "/proc/self/maps does not show which program of 64 bits QEMU runs; start it by its "
        "own name, not through a script");
  s.options.symbols.insert(s.options.symbols.begin(), program->file);
  s.program = std::move(*program);
  return {};
}

// Opens the outputs. All checks come before the directory is made, so that a failure leaves an
// earlier recording in it alone.
Result<void> open_outputs(Session& s) {
  auto symbols = load_symbols(s);
  if (!symbols) return tl::unexpected(std::move(symbols).error());
  if (auto chosen = choose_functions(s, symbols->table); !chosen) return chosen;
  std::optional<Marker> marker;
  if (s.options.to_ftrace) {
    auto opened = open_marker(s.options);
    if (!opened) return tl::unexpected(std::move(opened).error());
    marker = std::move(*opened);
  }
  std::optional<DirectoryWriter> directory;
  if (s.options.to_directory) {
    auto created = DirectoryWriter::create(s.options.out, describe(s));
    if (!created) return tl::unexpected(std::move(created).error());
    if (auto written = created->write_symbols(symbols->written); !written) {
      created->discard();
      return written;
    }
    directory = std::move(*created);
  }
  s.recording =
      std::make_unique<Recording>(s.options, *s.arch, std::move(directory), s.clock, s.user_mode);
  if (!marker) return {};
  CallMarkers::Run run{
      s.recording->id(), s.arch->name, kContexts[static_cast<unsigned>(s.options.contexts)],
      s.options.to_directory ? "both" : "ftrace", s.options.contexts != Contexts::kVcpu};
  s.markers =
      std::make_unique<CallMarkers>(std::move(*marker), std::move(symbols->table), std::move(run));
  s.recording->use_markers(s.markers.get());
  return {};
}

Result<void> set_up(Session& s, const qemu::Info& info) {
  s.arch = architecture(info.target_name);
  if (s.arch == nullptr)
    return fail(ErrorKind::kUsage, "the guest architecture {} is not known; {} are",
                info.target_name, known_architectures());
  s.user_mode = !info.system_emulation;
  if (s.user_mode && s.arch->exec_calls.empty())
    return fail(ErrorKind::kUsage,
                "programs of {} are not recorded in qemu-user; those of x86_64 "
                "and aarch64 are",
                s.arch->name);
  if (s.user_mode && s.options.contexts != Contexts::kVcpu)
    return fail(ErrorKind::kUsage,
                "contexts= is for qemu-system: in qemu-user each thread of the "
                "program is a task");
  if (s.options.clock == ClockChoice::kTsc && !host_counter::kIsTsc)
    return fail(ErrorKind::kUsage, "clock=tsc: this machine has no TSC; use clock=mono");
  const bool frames = s.options.mode == Detection::kFramePointer;
  if (frames && s.api.read_memory == nullptr)
    return fail(ErrorKind::kUsage,
                "mode=frame-pointer needs QEMU 9.2 or newer (reading guest memory)");
  // qemu-user loads its program later
  return s.user_mode ? Result<void>() : begin_recording(s);
}

int install(PluginId id, const qemu::Info* info, int argc, char** argv) {
  if (session != nullptr) {
    std::fprintf(stderr, "trapline plugin: it is loaded already; load it once\n");
    return 1;
  }
  auto fresh = std::make_unique<Session>();
  const char* missing = fresh->api.load();
  if (missing != nullptr) {
    std::fprintf(stderr, "trapline plugin: this QEMU lacks %s; QEMU 9.0 to 11.x have it\n",
                 missing);
    return 1;
  }
  fresh->api.version = qemu_plugin_version;
  auto options =
      parse_plugin_options({const_cast<const char* const*>(argv), static_cast<std::size_t>(argc)});
  if (options && options->help) {
    std::fputs(plugin_help().c_str(), stdout);
    std::fflush(stdout);
    return 1;
  }
  Result<void> done = options ? Result<void>{} : tl::unexpected(std::move(options).error());
  if (done) {
    fresh->options = std::move(*options);
    done = set_up(*fresh, *info);
  }
  if (!done) {
    std::fprintf(stderr, "trapline plugin: %s\n", done.error().message.c_str());
    return 1;
  }
  if (!fresh->user_mode && runs_under_kvm()) {
    fresh->told_of_kvm = true;
    std::fputs(
        "trapline plugin: the guest runs under KVM, where a plugin sees nothing: no function will "
        "be recorded; use -accel tcg for that\n",
        stderr);
  }
  session = fresh.release();
  subscribe_to_all(id);
  return 0;
}

}  // namespace

Result<void> begin_recording(Session& s) {
  if (s.user_mode) {
    if (auto found = find_program(s); !found) return found;
  }
  s.clock.start(s.options.clock);
  if (auto opened = open_outputs(s); !opened) return opened;
  ::malloc_trim(0);  // returns the freed memory of the symbols' text
  s.tracker_options.sites_know_slots = s.arch->link.empty();
  s.tracker_options.higher_level_is_user = s.arch->higher_level_is_user;
  s.tracker_options.handler_reach = s.arch->handler_reach;
  s.tracker_options.know_starts =
      s.filter->knows_starts() && s.options.mode != Detection::kFramePointer;
  // A program sees no interrupts, and its system calls return to where they were made.
  s.tracker_options.told_of_events = s.user_mode || s.api.register_discontinuity != nullptr;
  s.tracker_options.filtered = s.filter->filters();
  s.tracker_options.min_duration = s.options.min_duration;
  s.tracker_options.max_depth = s.options.max_depth;
  s.tracker_options.records = s.options.to_directory;
  if (s.options.contexts == Contexts::kStack)
    s.shared_stacks = std::make_unique<StackPool>(true, &s.frames);
  s.recording->write_sync();
  if (s.markers) s.markers->begin();
  return {};
}

// Names the functions when the program has ended or was killed; its files are still mapped.
void name_functions(Session& s) {
  if (!s.options.to_directory || s.recording->is_child()) return;
  const auto maps = read_text("/proc/self/maps");
  if (!maps) return;
  std::vector<SymbolFileSpec> specs = s.options.symbols;
  for (SymbolFileSpec& mapped : files_of_program(*maps, s.program.base))
    if (std::find(specs.begin(), specs.end(), mapped) == specs.end())
      specs.push_back(std::move(mapped));
  std::vector<SymbolFile> files;
  std::vector<std::uint64_t> offsets;
  for (const SymbolFileSpec& spec : specs) {
    auto file = load_symbol_file(spec.path);
    if (!file) {
      std::fprintf(stderr, "trapline plugin: functions have no names: %s\n",
                   file.error().message.c_str());
      continue;
    }
    files.push_back(std::move(*file));
    offsets.push_back(spec.offset);
  }
  auto formatted = format_files(files, offsets);
  if (!formatted)
    return void(std::fprintf(stderr, "trapline plugin: %s\n", formatted.error().message.c_str()));
  s.recording->write_symbols(*formatted);
}

}  // namespace trapline

TRAPLINE_EXPORT int qemu_plugin_install(trapline::qemu::PluginId id,
                                        const trapline::qemu::Info* info, int argc, char** argv) {
  try {
    return trapline::install(id, info, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trapline plugin: %s\n", error.what());
    return 1;
  }
}
