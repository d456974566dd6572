#include "merge/session/input.h"

#include <algorithm>
#include <filesystem>

#include "backend_ftrace/base/paths.h"
#include "merge/clock/relate.h"
#include "merge/session/guest_function_source.h"
#include "merge/session/guest_kernel_source.h"
#include "merge/session/mapped_source.h"
#include "merge/session/marker_overlap.h"
#include "merge/session/open.h"
#include "merge/session/session_json.h"
#include "merge/session/sync_records.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInstalledTraceEvents = "/usr/share/qemu/trace-events-all";

// One thing to read. A session's own parts are left out, with a note, where nothing relates them;
// what was named is refused.
struct Part {
  std::string path;
  SourceKind kind = SourceKind::kTraceDat;
  bool named = true;
  bool marker_calls = true;  // false: a directory has those in trace_marker, and more
};

// What the named files and folders stand for, host recordings first.
Result<std::vector<Part>> parts_of(const InputOptions& options) {
  std::vector<Part> parts;
  for (const std::string& path : options.paths) {
    const auto kind = kind_of_source(path);
    if (!kind && !is_folder(path)) {  // what is wrong with it, its reader knows best
      parts.push_back({path, SourceKind::kTraceDat, true});
      continue;
    }
    auto inside = parts_of_source(path);
    if (!inside) return tl::unexpected(std::move(inside).error());
    for (std::string& part : *inside) {
      const SourceKind what = kind_of_source(part).value_or(SourceKind::kTraceDat);
      parts.push_back({std::move(part), what, *kind != SourceKind::kSession});
    }
  }
  std::stable_partition(parts.begin(), parts.end(),
                        [](const Part& part) { return part.kind == SourceKind::kTraceDat; });
  return parts;
}

// What session.json tells: the threads and the virtual machines' names.
void read_session(const std::string& folder, Input& input) {
  const auto session = read_session_json(folder);
  if (!session) return;
  for (const SessionThread& thread : session->threads) {
    input.processes.set(ThreadId{thread.tid}, ThreadId{thread.pid});
  }
  for (const SessionVm& vm : session->vms) input.vm_names[ThreadId{vm.pid}] = vm.name;
}

// The files of a session's symbols/ folder, in order of their names.
std::vector<std::string> session_symbols(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "symbols", error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path().string());
  }
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

// A file that was named must be readable; the session's and the installed one are there or not.
Result<std::vector<tracetool::Event>> load_trace_events(const InputOptions& options) {
  std::string path = options.trace_events;
  if (path.empty()) {
    for (const std::string& named : options.paths) {
      const fs::path inside = fs::path(named) / "trace-events-all";
      if (is_folder(named) && is_file(inside)) path = inside.string();
    }
  }
  if (path.empty() && is_file(kInstalledTraceEvents)) path = kInstalledTraceEvents;
  if (path.empty()) return std::vector<tracetool::Event>();
  auto file = tracetool::read_trace_events(path);
  if (!file) return tl::unexpected(std::move(file).error());
  return std::move(file->events);
}

// The recordings that sync records relate to their guest's host, the first recording.
class GuestParts {
 public:
  GuestParts(const InputOptions& options, std::string host) : host_(std::move(host)) {
    how_.tsc_khz = options.tsc_khz;
    if (!options.trace_events.empty()) how_.trace_events = options.trace_events;
  }
  // What `trapline sync` printed in the guest.
  void add_syncs(const std::string& path) {
    auto lines = read_guest_sync_file(path);
    syncs_.insert(syncs_.end(), lines.begin(), lines.end());
    syncs_path_ = path;
  }

  // A file with sync records that relates nothing was given in vain.
  [[nodiscard]] Result<void> all_used() const {
    if (syncs_.empty() || used_) return {};
    return fail(
        ErrorKind::kUsage,
        "{}: none of the recordings is of another machine than {}; where guest and host have "
        "one name, put it into the guest's uftrace directory as sync.txt",
        syncs_path_, host_);
  }

  // Nothing where the two have nothing in common.
  Result<std::unique_ptr<Source>> open(const Part& part) {
    if (part.kind == SourceKind::kUftrace && recorded_outside(part.path)) {
      auto directory = DataDirectory::open(part.path);
      if (!directory) return tl::unexpected(std::move(directory).error());
      auto relation = relate_guest(guest_recording(*directory), opener(host_));
      if (!relation) return tl::unexpected(std::move(relation).error());
      if (!*relation) return nullptr;
      return open_guest_calls(part.path, **relation);
    }
    const bool may = part.kind == SourceKind::kUftrace || part.kind == SourceKind::kTraceDat;
    if (!may || part.path == host_) return nullptr;
    auto source = opener(part.path)();
    if (!source) return tl::unexpected(std::move(source).error());
    auto syncs = syncs_of(part.path);
    if (!syncs) return tl::unexpected(std::move(syncs).error());
    const GuestRecording guest = guest_recording(**source, opener(part.path), *syncs);
    used_ |= !guest.syncs.empty();
    auto relation = relate_guest(guest, opener(host_));
    if (!relation) {
      return fail(relation.error().kind,
                  "{} and {}: {}; or give --offset {}=NS, what has to be added to its times",
                  part.path, host_, relation.error().message, part.path);
    }
    if (!*relation) return nullptr;
    auto again = opener(part.path)();
    if (!again) return tl::unexpected(std::move(again).error());
    return with_guest_relation(std::move(*again), **relation);
  }

 private:
  // Those that were given beside the recordings, for one of another machine than the host.
  Result<std::vector<GuestSyncLine>> syncs_of(const std::string& path) const {
    if (syncs_.empty()) return syncs_;
    const auto host = clock_of_source(host_, how_, false);
    const auto part = clock_of_source(path, how_, false);
    if (!host) return tl::unexpected(host.error());
    if (!part) return tl::unexpected(part.error());
    const bool another = host->machine != part->machine || host->machine.empty();
    return another ? syncs_ : std::vector<GuestSyncLine>();
  }
  // The plugin stamps what it sees.
  static bool recorded_outside(const std::string& folder) {
    const auto lines = read_guest_sync_file(folder + "/sync.txt");
    return !lines.empty() && lines.front().stamp.has_value();
  }
  [[nodiscard]] OpenSource opener(const std::string& path) const {
    return [path, how = how_] { return open_source(path, how); };
  }

  SourceOptions how_;
  std::string host_;
  std::vector<GuestSyncLine> syncs_;
  std::string syncs_path_;
  bool used_ = false;
};

// Opens the parts that have a clock of a machine, and puts them on the first one's.
class ClockedParts {
 public:
  ClockedParts(const InputOptions& options, Input& input) : options_(options), input_(input) {
    how_.tsc_khz = options.tsc_khz;
    if (!options.trace_events.empty()) how_.trace_events = options.trace_events;
  }

  Result<void> add(const Part& part) {
    auto source = open_source_of(part);
    if (!source) return tl::unexpected(std::move(source).error());
    input_.traits.merge((*source)->traits());
    parts_.push_back(part);
    sources_.push_back(std::move(*source));
    return {};
  }

  Result<void> relate() {
    auto clocks = read_clocks(false);
    if (!clocks) return tl::unexpected(std::move(clocks).error());
    if (!clocks::same_clocks(*clocks)) clocks = read_clocks(true);
    if (!clocks) return tl::unexpected(std::move(clocks).error());
    auto related = clocks::relate(*clocks);
    while (!related && leave_out_last(related.error().message)) {
      clocks->pop_back();
      related = clocks::relate(*clocks);
    }
    if (!related) return tl::unexpected(std::move(related).error());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      for (const std::string& note : related->sources[i].notes) input_.notes.push_back(note);
      input_.sources.push_back(
          with_clock(std::move(sources_[i]), related->sources[i], related->clock));
    }
    return {};
  }

 private:
  Result<std::unique_ptr<Source>> open_source_of(const Part& part) {
    if (part.kind != SourceKind::kTraceDat) return open_source(part.path, how_);
    trace_dat::Options how;
    how.tsc_khz = options_.tsc_khz;
    how.marker_calls = part.marker_calls;
    auto source = trace_dat::open_trace_dat(part.path, how);
    if (!source) return tl::unexpected(std::move(source).error());
    return std::unique_ptr<Source>(std::move(*source));
  }

  Result<std::vector<clocks::SourceClock>> read_clocks(bool with_syncs) {
    std::vector<clocks::SourceClock> clocks;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_.size() == 1) {  // alone it needs no relation
        clocks::SourceClock& clock = clocks.emplace_back();
        clock.path = parts_[i].path;
        clock.clock = sources_[i]->info().clock;
        clock.cycles = sources_[i]->info().cycles;
        break;
      }
      auto clock = clock_of_source(parts_[i].path, how_, with_syncs);
      if (!clock) return tl::unexpected(std::move(clock).error());
      clocks.push_back(std::move(*clock));
    }
    if (parts_.size() > 1) clocks::take_peers_clocks(clocks);
    std::vector<clocks::OffsetOption> offsets;
    for (const std::string& text : options_.offsets) {
      auto offset = clocks::parse_offset(text);
      if (!offset) return tl::unexpected(std::move(offset).error());
      offsets.push_back(std::move(*offset));
    }
    if (auto applied = clocks::apply_offsets(offsets, clocks); !applied) {
      return tl::unexpected(std::move(applied).error());
    }
    return clocks;
  }

  // Of a session, what nothing relates is told and left out.
  bool leave_out_last(const std::string& why) {
    if (parts_.size() < 2 || parts_.back().named) return false;
    input_.notes.push_back(fmt::format("{} is left out: {}", parts_.back().path, why));
    parts_.pop_back();
    sources_.pop_back();
    return true;
  }

  const InputOptions& options_;
  Input& input_;
  SourceOptions how_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Source>> sources_;
};

// Whether --offset names it: then the user relates it.
bool has_offset(const InputOptions& options, const std::string& path) {
  return std::ranges::any_of(options.offsets, [&path](const std::string& text) {
    const auto offset = clocks::parse_offset(text);
    return offset && (path == offset->source || path.ends_with("/" + offset->source));
  });
}

// Of several recordings the host is the first one with events of KVM, wherever it was named.
void put_host_first(std::vector<Part>& parts) {
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (part->kind != SourceKind::kTraceDat) return;
    const auto source = trace_dat::open_trace_dat(part->path, {});
    if (!source || !(*source)->traits().any_kvm) continue;
    std::rotate(parts.begin(), part, part + 1);
    return;
  }
}

// The plugin's output=both: of a trace.dat and a directory of one run the calls of one count.
void leave_out_second_calls(std::vector<Part>& parts, Input& input) {
  for (auto directory = parts.begin(); directory != parts.end();) {
    bool leave_out = false;
    for (Part& trace : parts) {
      if (directory->kind != SourceKind::kUftrace || trace.kind != SourceKind::kTraceDat) continue;
      auto overlap = compare_marker_calls(trace.path, directory->path);
      if (!overlap || !*overlap) continue;  // what is wrong with them, their readers tell
      input.notes.push_back((*overlap)->note);
      leave_out = (*overlap)->use_markers;
      trace.marker_calls = leave_out;
      break;
    }
    directory = leave_out ? parts.erase(directory) : directory + 1;
  }
}

Result<void> open_recordings(const InputOptions& options, Input& input) {
  auto parts = parts_of(options);
  if (!parts) return tl::unexpected(std::move(parts).error());
  if (parts->size() > 1) put_host_first(*parts);
  if (parts->size() > 1) leave_out_second_calls(*parts, input);
  if (parts->front().kind == SourceKind::kGuestSync) {
    return tl::unexpected(open_source(parts->front().path, {}).error());
  }
  const bool has_host = parts->front().kind == SourceKind::kTraceDat;
  GuestParts of_guests(options, parts->front().path);
  for (const Part& part : *parts) {
    if (part.kind == SourceKind::kGuestSync) of_guests.add_syncs(part.path);
  }
  std::vector<std::unique_ptr<Source>> guests;
  ClockedParts clocked(options, input);
  for (const Part& part : *parts) {
    if (part.kind == SourceKind::kGuestSync) continue;
    if (has_host && !has_offset(options, part.path)) {
      auto guest = of_guests.open(part);
      if (!guest) return tl::unexpected(std::move(guest).error());
      if (*guest != nullptr) {
        guests.push_back(std::move(*guest));
        continue;
      }
    }
    if (auto added = clocked.add(part); !added) return added;
  }
  if (auto used = of_guests.all_used(); !used) return used;
  if (auto related = clocked.relate(); !related) return related;
  for (auto& guest : guests) input.sources.push_back(std::move(guest));
  return {};
}

}  // namespace

Result<Input> open_input(const InputOptions& options) {
  Input input;
  if (auto opened = open_recordings(options, input); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  for (const std::string& path : options.paths) {
    if (is_folder(path)) read_session(path, input);
  }
  auto symbols = load_symbols(options);
  if (!symbols) return tl::unexpected(std::move(symbols).error());
  input.symbols = std::move(*symbols);
  if (input.traits.markers) {
    auto declared = load_trace_events(options);
    if (!declared) return tl::unexpected(std::move(declared).error());
    input.declared = std::move(*declared);
  }
  return input;
}

}  // namespace trapline
