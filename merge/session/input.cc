#include "merge/session/input.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "backend_ftrace/base/message.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/session/marker_overlap.h"
#include "merge/session/open.h"
#include "merge/session/recordings.h"
#include "merge/session/session_json.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

bool is_left_out(const InputOptions& options, const std::string& name) {
  return std::ranges::find(options.without, name) != options.without.end();
}

// Checks that a part is there, as large as the session's list says, and a recording. Adds it to
// `open`.
Result<void> check_part(const std::string& session, const SessionPart& part,
                        std::vector<RecordingPart>& open) {
  const std::string path = session + "/" + part.name;
  const auto folder = Folder::open_to_read(session);
  if (!folder) return tl::unexpected(folder.error());
  const std::string go_on =
      "copy it from where it was recorded, or leave it out: --without " + printable(part.name);
  if (!is_there(path)) {
    return fail(ErrorKind::kDamaged, "{} is missing: session.json lists it, with {} bytes; {}",
                printable(path), part.size, go_on);
  }
  const std::uint64_t size = size_of_part(*folder, part.name);
  if (size < part.size) {
    return fail(ErrorKind::kDamaged, "{} is cut off: {} bytes of {}, by session.json; {}",
                printable(path), size, part.size, go_on);
  }
  // A log without times is not a recording.
  auto is = recognise(path);
  if (is) open.push_back(std::move(*is));
  if (is || part.name == "qemu.log") return {};
  return fail(ErrorKind::kDamaged, "{}; session.json lists it; {}", is.error().message, go_on);
}

// Returns the parts that the sessions list, opened.
Result<std::vector<RecordingPart>> check_parts(const InputOptions& options) {
  std::vector<std::string> listed;
  std::vector<std::pair<std::string, SessionPart>> parts;  // the parts to read, with their session
  for (const std::string& path : options.paths) {
    const auto session = is_folder(path) ? read_session_json(path) : std::nullopt;
    if (!session) continue;
    for (const SessionPart& part : session->parts) {
      listed.push_back(printable(part.name));
      const bool is_known = std::ranges::find(kSessionParts, part.name) != kSessionParts.end();
      if (is_known && !is_left_out(options, part.name)) parts.emplace_back(path, part);
    }
  }
  for (const std::string& name : options.without) {
    if (std::ranges::find(listed, name) != listed.end()) continue;
    return fail(ErrorKind::kUsage, "--without {}: {}", printable(name),
                listed.empty() ? "no session's list of parts (session.json) was given"
                               : fmt::format("the session lists {}", fmt::join(listed, ", ")));
  }
  std::vector<RecordingPart> open;
  for (const auto& [session, part] : parts)
    if (auto checked = check_part(session, part, open); !checked)
      return tl::unexpected(std::move(checked).error());
  return open;
}

// Returns the recordings in the named files and folders, host recordings first.
Result<std::vector<RecordingPart>> parts_of(const InputOptions& options) {
  std::vector<RecordingPart> parts;
  const auto listed = check_parts(options);
  if (!listed) return tl::unexpected(listed.error());
  for (const std::string& path : options.paths) {
    auto inside = parts_of_source(path, *listed);
    if (!inside) return tl::unexpected(std::move(inside).error());
    std::erase_if(*inside, [&options](const RecordingPart& part) {
      return !part.named && is_left_out(options, fs::path(part.path).filename());
    });
    parts.insert(parts.end(), std::make_move_iterator(inside->begin()),
                 std::make_move_iterator(inside->end()));
  }
  if (parts.empty()) return fail(ErrorKind::kUsage, "--without leaves no recording to read");
  std::stable_partition(parts.begin(), parts.end(), [](const RecordingPart& part) {
    return part.kind == SourceKind::kTraceDat || part.kind == SourceKind::kPerfData;
  });
  return parts;
}

// Checks that no recording is named twice, by device and inode, which needs no reading. A copy of a
// kernel's recording is detected after reading.
Result<void> check_given_once(const std::vector<RecordingPart>& parts) {
  for (auto a = parts.begin(); a != parts.end(); ++a) {
    for (auto b = parts.begin(); a->kind != SourceKind::kGuestSync && b != a; ++b) {
      std::error_code error;
      if (fs::equivalent(b->path, a->path, error)) return given_twice(b->path, a->path);
    }
  }
  return {};
}

void add_facts(const SessionJson& session, Input& input) {
  const auto add = [&input](const char* what, std::string text) {
    if (!text.empty()) input.recorded.emplace_back(what, std::move(text));
  };
  const SessionHost& host = session.host;
  if (!host.machine.empty() || !host.kernel.empty())
    add("Host", fmt::format("{} {}, {} CPUs", host.machine, host.kernel, host.cpus));
  add("QEMU", session.qemu_version);
  constexpr std::size_t kLongest = 2000;
  std::string command = fmt::format("{}", fmt::join(session.command, " "));
  if (command.size() > kLongest) command = command.substr(0, kLongest) + " …";
  add("Command", std::move(command));
  for (std::string& sentence : session.missing()) input.notes.push_back(std::move(sentence));
  for (const std::string& warning : session.warnings) input.notes.push_back(printable(warning));
  if (!session.closed && session.unreadable.empty())
    add("Cut off", "the recording was not closed: it ends where it was cut off");
}

// Reads threads and the virtual machines' names from session.json. Returns the capabilities that
// the session's enabled events would have given the recording, had they occurred.
Capabilities read_session(const SessionJson& session, Input& input) {
  add_facts(session, input);
  // True if the recording holds all events of the time over which the kernel counted (ran_ns).
  const bool is_whole = session.closed && session.missing().empty() && session.changes.empty() &&
                        !session.snapshot && !session.flight;
  for (const SessionThread& thread : session.threads) {
    input.processes.set(ThreadId{thread.tid}, ThreadId{thread.pid});
    if (is_whole && thread.tid != 0 && thread.ran_ns && (*thread.ran_ns)[1] >= (*thread.ran_ns)[0])
      input.processes.set_counted(ThreadId{thread.tid}, (*thread.ran_ns)[1] - (*thread.ran_ns)[0]);
  }
  input.processes.irq_time_apart = session.host.irq_time_apart;
  if (session.recorder_pid != 0) input.processes.recorder = ThreadId{session.recorder_pid};
  if (session.pid != 0) input.processes.selected = ThreadId{session.pid};
  std::vector<CpuQuota> quotas;
  for (const SessionCgroup& cgroup : session.cgroups) {
    quotas.push_back({cgroup.path, cgroup.throttled[1] - cgroup.throttled[0],
                      cgroup.throttled_ns[1] - cgroup.throttled_ns[0], cgroup.threads});
  }
  CpuQuotas known(std::move(quotas));
  // The cgroups' counts are read for the last time when the recording ends. A session that was not
  // closed lacks this, so its counts may be too small for every thread.
  for (const SessionThread& thread : session.threads)
    if (session.closed) known.set_known(ThreadId{thread.tid});
  input.processes.quotas = std::move(known);
  for (const SessionVm& vm : session.vms)
    input.processes.set_name(ThreadId{vm.pid}, printable(vm.name));
  const auto enabled = [&session](const KernelEvent& event) {
    return std::ranges::find(session.events, event.full_name) != session.events.end();
  };
  std::vector<Processes::Slot> slots;
  for (std::size_t i = 0; session.edges.size() == 2 && i < 2; ++i) {
    const std::vector<SessionSlot>& others = session.edges[1 - i].slots;
    for (const SessionSlot& slot : session.edges[i].slots) {
      const bool stays = std::ranges::find(others, slot) != others.end();
      slots.push_back(
          {slot.first, slot.last, stays ? printable(slot.name) : std::string(), slot.offset});
    }
  }
  input.processes.set_slots(ThreadId{session.pid}, std::move(slots));
  for (const std::string& device : session.swaps) {
    constexpr unsigned kMinorBits = 20;  // linux/kdev_t.h
    std::uint32_t major = 0, minor = 0;
    std::string_view rest = device;
    if (take_number(rest, major) && rest.starts_with(':') &&
        take_number(rest = rest.substr(1), minor))
      input.swaps.insert(major << kMinorBits | minor);
  }
  input.records_file_pages |= enabled(events::mm_filemap_add_to_page_cache);
  return {.kvm_userspace_exit = enabled(events::kvm_userspace_exit),
          .run_ioctl = enabled(events::sys_enter_ioctl),
          .moves = enabled(events::sched_migrate_task)};
}

// Returns the files in a session's symbols/ folder, in order of their names.
std::vector<std::string> session_symbols(const std::string& folder) {
  std::vector<std::string> files;
  const fs::path symbols = fs::path(folder) / "symbols";
  for (const std::string& name : names_in(symbols))
    if (is_file(symbols / name)) files.push_back((symbols / name).string());
  std::sort(files.begin(), files.end());
  return files;
}

Result<SymbolTable> load_symbols(const InputOptions& options) {
  std::vector<SymbolFileSpec> specs;
  for (const std::string& text : options.symbols) {
    auto spec = parse_symbol_file_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    specs.push_back(std::move(*spec));
  }
  if (specs.empty()) {
    for (const std::string& path : options.paths) {
      if (!is_folder(path)) continue;
      for (std::string& file : session_symbols(path)) specs.push_back({std::move(file), 0});
    }
  }
  if (specs.empty()) return SymbolTable();
  return SymbolTable::load(specs);
}

// Loads the declarations of trace-events-all: the file that the user named, which must be readable,
// else the session's or the installed one, if there is one.
Result<tracetool::Declarations> load_trace_events(const InputOptions& options) {
  std::string path = options.trace_events;
  if (path.empty()) {
    for (const std::string& named : options.paths) {
      const fs::path inside = fs::path(named) / "trace-events-all";
      if (is_folder(named) && is_file(inside)) path = inside.string();
    }
  }
  if (path.empty() && is_file(tracetool::kInstalledTraceEvents))
    path = tracetool::kInstalledTraceEvents;
  return path.empty() ? tracetool::Declarations() : tracetool::Declarations::read(path);
}

// Leaves out calls that the plugin wrote twice (output=both), to a trace.dat and to a directory:
// only the calls of one of the two are used.
void leave_out_second_calls(std::vector<RecordingPart>& parts, Input& input) {
  for (auto directory = parts.begin(); directory != parts.end();) {
    bool leave_out = false;
    for (RecordingPart& trace : parts) {
      if (directory->kind != SourceKind::kUftrace || trace.kind != SourceKind::kTraceDat) continue;
      auto overlap = compare_marker_calls(*trace.file, directory->path);
      if (!overlap || !*overlap) continue;  // the recordings' readers report errors
      input.notes.push_back((*overlap)->note);
      leave_out = (*overlap)->use_markers;
      trace.marker_calls = leave_out;
      break;
    }
    directory = leave_out ? parts.erase(directory) : directory + 1;
  }
}

// Returns "kvm_exit, sched_switch, markers".
std::string text_of(const Capabilities& has) {
  const std::string run = fmt::format("{} of KVM_RUN", events::sys_enter_ioctl.name);
  std::string text;
  for (const auto& [is_there, name] : std::initializer_list<std::pair<bool, std::string_view>>{
           {has.kvm_exit, events::kvm_exit.name},
           {has.kvm_userspace_exit, events::kvm_userspace_exit.name},
           {has.run_ioctl, run},
           {has.reload, "state loads after user space"},
           {has.sched_switch, events::sched_switch.name},
           {has.wakeups, "wake-ups"},
           {has.markers, "markers"}}) {
    if (is_there) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text.empty() ? "none of the events that VM exits are found by" : text;
}

void tell(const Input& input) {
  const auto say = [](const std::string& line) { trapline::say("trapline", line); };
  for (const auto& source : input.sources) {
    const SourceInfo& info = source->info();
    say(fmt::format("{}: {}, read by {}", info.path, info.kind, source->reader()));
    const SourceAlignment& aligned = info.aligned;
    const bool is_timelines = aligned.is_same_clock() && !aligned.one_boot_error_ns;
    say(fmt::format(
        "{}: clock {}, {}", info.path, info.clock,
        is_timelines ? std::string("the timeline's")
                     : fmt::format("{}; offset {} ns, error {}", aligned.text(), aligned.offset_ns,
                                   aligned.error_ns ? fmt::format("{} ns", *aligned.error_ns)
                                                    : "not known")));
  }
  say("the recording holds " + text_of(input.capabilities));
  if (!input.symbols.empty()) say(fmt::format("{} symbols of the guest", input.symbols.size()));
  if (input.declared.size() != 0)
    say(fmt::format("{} events declared by trace-events", input.declared.size()));
  for (const std::string& note : input.notes) say(note);
}

// Returns whether the VMM's own events, at the beginning of the recordings, show exits and KVM_RUN.
Capabilities exits_of_vmm(std::span<const std::unique_ptr<Source>> sources) {
  constexpr int kMostEvents = 1 << 14;
  Capabilities found;
  for (const auto& source : sources) {
    if (!source->capabilities().markers) continue;
    const auto again = source->again();
    Event event;
    for (int i = 0; again && i < kMostEvents && (*again)->next(event) == Read::kEvent; ++i) {
      const auto* marker = std::get_if<Marker>(&event.payload);
      const auto has = [marker](std::string_view words) {
        return marker != nullptr && marker->text.find(words) != marker->text.npos;
      };
      found.vmm_exits |= has("kvm_run_exit cpu_index ");
      found.run_ioctl |= has("kvm_vcpu_ioctl cpu_index ") && has(" type 0xae80");
    }
  }
  found.kvm_userspace_exit = found.vmm_exits;
  return found.vmm_exits ? found : Capabilities();
}

// Adds the recorder's notes, which may explain why a recording cannot be read, for example because
// tracing was switched off.
Error with_notes(Error error, std::span<const std::string> notes) {
  constexpr std::size_t kMostTold = 5;
  const auto first = notes.first(std::min(notes.size(), kMostTold));
  if (!first.empty())
    error.message += fmt::format("; its session.json says: {}", fmt::join(first, "; "));
  return error;
}

}  // namespace

tl::unexpected<Error> given_twice(const std::string& first, const std::string& second) {
  return fail(ErrorKind::kUsage, "{} and {} hold the same run; give each run once",
              printable(first), printable(second));
}

Result<Input> open_input(const InputOptions& options) {
  Input input;
  auto parts = parts_of(options);
  if (!parts) return tl::unexpected(parts.error());
  if (auto once = check_given_once(*parts); !once) return tl::unexpected(once.error());
  if (parts->size() > 1) leave_out_second_calls(*parts, input);
  Capabilities enabled;
  for (const std::string& path : options.paths) {
    const auto session = is_folder(path) ? read_session_json(path) : session_of_recording(path);
    if (!session) continue;
    for (std::string& sentence : session->missing()) input.missing.push_back(std::move(sentence));
    if (is_folder(path)) enabled.merge(read_session(*session, input));
  }
  // With a guest's recording, a thread's id may be that of a thread of the guest too.
  if (options.paths.size() > 1) input.processes.forget_counted();
  for (const std::string& name : options.without) {
    input.missing.push_back(printable(name) + " is left out, by --without");
    input.notes.push_back(input.missing.back() + ": the figures lack what it holds");
  }
  const std::vector<std::string> known = input.notes;
  if (auto opened = open_recordings(options, input, *parts); !opened)
    return tl::unexpected(with_notes(std::move(opened).error(), known));
  input.capabilities.moves |= enabled.moves;
  // If kvm_userspace_exit was enabled but never came, it is known that no time is QEMU's.
  if (options.paths.size() == 1 && input.capabilities.kvm_exit &&
      !input.capabilities.kvm_userspace_exit && enabled.kvm_userspace_exit)
    input.capabilities.merge(enabled);
  if (!input.capabilities.kvm_exit && !input.capabilities.kvm_userspace_exit)
    input.capabilities.merge(exits_of_vmm(input.sources));
  if (auto loaded = add_companions(options, input); !loaded)
    return tl::unexpected(std::move(loaded).error());
  if (options.verbose) tell(input);
  return input;
}

Result<void> add_companions(const InputOptions& options, Input& input) {
  auto loaded = assign(input.symbols, load_symbols(options));
  if (!loaded || !input.capabilities.markers) return loaded;
  input.trace_events = options.trace_events;
  return assign(input.declared, load_trace_events(options));
}

}  // namespace trapline
