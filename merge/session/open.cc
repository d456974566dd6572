#include "merge/session/open.h"

#include <algorithm>
#include <filesystem>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/trace_events.h"
#include "merge/session/session_json.h"
#include "merge/session/wrapped_sources.h"
#include "merge/source/open_recording.h"
#include "merge/source/perf_data/layout.h"
#include "merge/source/qemu_log/qemu_log_source.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

// Bytes that are searched for a line of a trace, since a mail with one may begin with much prose.
constexpr std::size_t kLook = 1U << 20;
constexpr std::size_t kLongestMagic = 16;
constexpr const char* kGuestSyncs = kSessionParts.back();
constexpr auto kParts = std::span(kSessionParts).first<kSessionParts.size() - 1>();
constexpr const char* kExpected =
    "expected a trace.dat, a perf.data, a uftrace data directory, a simpletrace file, a QEMU log "
    "with timestamps (-msg timestamp=on), a session folder, or a trace as text (trace-cmd report, "
    "perf script, the files trace and trace_pipe of tracefs)";

bool has_log_line(std::string_view text) {
  while (!text.empty())
    if (parse_qemu_log_line(take_line(text))) return true;
  return false;
}

// Returns whether the text has QEMU's events as in its log but without times: more than half of the
// lines begin with a name in lower-case letters, digits and at least one underscore.
bool has_events_without_times(std::string_view text) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz0123456789_";
  std::size_t lines = 0, events = 0;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t name = std::min(line.find_first_not_of(kName), line.size());
    const bool ends = name == line.size() || line[name] == ' ';
    if (!line.empty()) ++lines;
    if (ends && line.substr(0, name).find('_') != std::string_view::npos) ++events;
  }
  return events * 2 > lines;
}

// Reads the first bytes of a file, at most `most`.
Result<void> read_head(const File& file, std::uint64_t most, std::string& head) {
  head.resize(static_cast<std::size_t>(std::min(file.size(), most)));
  return file.read(0, std::as_writable_bytes(std::span(head)));
}

Result<SourceKind> kind_of_file(const File& file) {
  const std::string& path = file.path();
  std::string head;
  if (auto read = read_head(file, kLongestMagic, head); !read)
    return tl::unexpected(std::move(read).error());
  // Includes a file that is empty or cut off inside the magic: the reader of trace.dat reports it.
  if (kTraceDatMagic.starts_with(head.substr(0, kTraceDatMagic.size())))
    return SourceKind::kTraceDat;
  // perf's magic in both byte orders, and that of its first version.
  for (const std::string_view magic : {"PERFILE2", "2ELIFREP", "PERFFILE"})
    if (head.starts_with(magic)) return SourceKind::kPerfData;
  if (simpletrace::Reader::recognises(head)) return SourceKind::kSimpletrace;
  if (auto read = read_head(file, kLook, head); !read)
    return tl::unexpected(std::move(read).error());
  if (head.starts_with(kGuestSyncPrefix)) return SourceKind::kGuestSync;
  if (has_log_line(head)) return SourceKind::kQemuLog;
  if (has_trace_line(head)) return SourceKind::kTraceText;
  if (auto other = refusal_of(path, head)) return tl::unexpected(std::move(*other));
  if (has_events_without_times(head)) {
    return fail(
        ErrorKind::kDamaged,
        "{} is a log of trace events without timestamps: QEMU writes them with -msg "
        "timestamp=on, or into the recording with -D TRACE_MARKER (trapline help recording)",
        path);
  }
  return fail(ErrorKind::kDamaged, "{} is not a recording that trapline can read; {}", path,
              kExpected);
}

// Returns the kind of the recording at the path; nullopt if no file, or none of a known kind, is
// there.
std::optional<SourceKind> kind_at(const std::string& path) {
  const auto part = is_file(path) ? recognise(path) : RecordingPart{};
  return part && part->file ? std::optional(part->kind) : std::nullopt;
}

Result<SourceKind> kind_of_folder(const std::string& path) {
  if (is_there(fs::path(path) / "info") && is_there(fs::path(path) / "task.txt"))
    return SourceKind::kUftrace;
  for (const char* part : kParts)
    if (is_there(fs::path(path) / part)) return SourceKind::kSession;
  // The folder of perf record --threads has a file of this name.
  const std::string data = (fs::path(path) / "data").string();
  if (kind_at(data) == SourceKind::kPerfData) return SourceKind::kPerfData;
  if (trace_dat::is_unfinished(path)) return SourceKind::kSession;
  if (is_folder(fs::path(path) / "raw") && is_file(fs::path(path) / "session.json")) {
    return fail(ErrorKind::kDamaged,
                "{}: nothing is recorded yet, or the recorder was killed before it recorded "
                "anything; record again",
                path);
  }
  if (is_file(fs::path(path) / "session.json")) {
    return fail(ErrorKind::kDamaged,
                "{}: a session folder with session.json, but without a recording ({}): it was "
                "removed or not copied",
                path, fmt::join(kParts, ", "));
  }
  return fail(ErrorKind::kDamaged,
              "{} is a folder without info and task.txt (uftrace) and without {} (a session); {}",
              path, kParts.front(), kExpected);
}

Result<std::unique_ptr<Source>> open_recorded(const RecordingPart& part,
                                              const InputOptions& options) {
  std::vector<trace_dat::ChangedTime> changes;
  if (const auto session = session_of_recording(part.path)) {
    for (const SessionChange& change : session->changes)
      if (change.to_ns != 0)
        changes.push_back({Timestamp(change.from_ns), Timestamp(change.to_ns)});
  }
  std::ranges::sort(changes, {}, &trace_dat::ChangedTime::from);
  return trace_dat::open_trace_dat(*part.file, options.tsc_khz, part.marker_calls,
                                   std::move(changes));
}

}  // namespace

Result<RecordingPart> recognise(const std::string& path) {
  RecordingPart part{.path = path};
  if (!is_folder(path)) {
    if (auto opened = assign(part.file, trace_dat::open_trace_file(path)); !opened)
      return tl::unexpected(std::move(opened).error());
  }
  auto found = assign(part.kind, part.file ? kind_of_file(*part.file) : kind_of_folder(path));
  if (!found) return tl::unexpected(std::move(found).error());
  return part;
}

Result<std::vector<RecordingPart>> parts_of_source(const std::string& path,
                                                   std::span<const RecordingPart> open) {
  const auto recognised = [open](const std::string& at) {
    const auto known = std::ranges::find(open, at, &RecordingPart::path);
    return known == open.end() ? recognise(at) : Result<RecordingPart>(*known);
  };
  auto whole = recognise(path);
  if (!whole) return tl::unexpected(std::move(whole).error());
  if (whole->kind != SourceKind::kSession) return std::vector{std::move(*whole)};
  std::vector<RecordingPart> parts;
  std::string reason;
  for (const char* part : kParts) {
    const std::string inside = (fs::path(path) / part).string();
    // A QEMU log without timestamps, or an empty one, has nothing for a timeline.
    const bool there = is_there(inside) || trace_dat::is_unfinished_trace(inside);
    if (!there) continue;
    if (auto what = recognised(inside)) {
      parts.push_back(std::move(*what));
      parts.back().named = false;
    } else if (reason.empty()) {
      reason = what.error().message;
    }
  }
  if (parts.empty())
    return fail("{}: none of the session's recordings can be read: {}", path, reason);
  const std::string syncs = (fs::path(path) / kGuestSyncs).string();
  if (kind_at(syncs) == SourceKind::kGuestSync)
    parts.push_back({.path = syncs, .kind = SourceKind::kGuestSync, .named = false});
  return parts;
}

Result<std::unique_ptr<Source>> open_source(const std::string& path, const InputOptions& options) {
  const auto part = recognise(path);
  if (!part) return tl::unexpected(part.error());
  return open_source(*part, options);
}

Result<std::unique_ptr<Source>> open_source(const RecordingPart& part,
                                            const InputOptions& options) {
  const std::string& path = part.path;
  switch (part.kind) {
    case SourceKind::kTraceDat:
      return open_recorded(part, options);
    case SourceKind::kPerfData: {
      if (part.file) return open_perf_data({*part.file, {}});
      auto files = perf_data::open_folder(path);
      if (!files) return tl::unexpected(std::move(files).error());
      return open_perf_data(std::move(*files));
    }
    case SourceKind::kUftrace:
      return open_uftrace(path);
    case SourceKind::kSimpletrace:
      return open_simpletrace(*part.file, options.trace_events.empty()
                                              ? tracetool::kInstalledTraceEvents
                                              : options.trace_events);
    case SourceKind::kQemuLog:
      return open_qemu_log(*part.file);
    case SourceKind::kTraceText:
      return open_trace_text(*part.file, options.unit);
    case SourceKind::kGuestSync:
      return fail(ErrorKind::kUsage,
                  "{} holds sync records of a guest and no events; give it together with the "
                  "recordings of the guest and of its host",
                  path);
    case SourceKind::kSession:
      break;
  }
  return fail(ErrorKind::kUsage, "{} is a session of several recordings", path);
}

std::string machine_name(const Description& is) {
  const std::string& name = is.machine.name;
  return name == "(none)" || name == "localhost" ? "" : name;
}

// Returns no boot for a uftrace directory whose sync.txt names no clock: uftrace recorded it in a
// guest, so the boot of the session that it was put into may be that of the guest's host.
clocks::Boot boot_of(const std::string& path) {
  std::error_code error;
  fs::path file = fs::weakly_canonical(path, error);
  if (error) file = fs::absolute(path, error).lexically_normal();
  if (std::ranges::find(kParts, file.filename()) == kParts.end()) return {};
  if (is_folder(path)) {
    const auto sync = read_sync_file(path + "/sync.txt");
    if (!sync || sync->clock.empty()) return {};
  }
  const std::string folder = file.parent_path().string();
  // Prefers the path as it was given to the resolved one: a recorder opens its own session by a
  // descriptor (/proc/self/fd/N).
  const fs::path named = fs::path(path).parent_path();
  const auto session =
      read_session_json(fs::equivalent(named, folder, error) ? named.string() : folder);
  if (!session) return {};
  return {session->host.boot_id, folder};
}

clocks::SourceClock clock_of(const Description& is) {
  clocks::SourceClock clock;
  static_cast<ClockFacts&>(clock) = is;
  clock.machine = machine_name(is);
  clock.boot = boot_of(is.path);
  clock.system = is.machine.system;
  clock.cpus = is.machine.cpus;
  if (clock.nanoseconds_of_tsc) clock.applied = "TSC2NSEC";
  if (is.shifted) clock.applied = "time shift";
  return clock;
}

std::vector<clocks::SyncEntry> brackets_of(const SyncFile& file) {
  clocks::SyncGatherer gatherer;
  for (const auto& [stamp, record] : file.records) gatherer.add(record, stamp);
  return gatherer.take();
}

Result<bool> add_known_evidence(clocks::SourceClock& clock) {
  if (is_folder(clock.path)) {
    const auto sync = read_sync_file(clock.path + "/sync.txt");
    if (!sync) return tl::unexpected(sync.error());
    clock.syncs = brackets_of(*sync);
    return false;  // its interval is not known
  }
  // Stamps in session.json are on the recording's own clock, not converted to nanoseconds.
  if (clock.cycles || clock.nanoseconds_of_tsc) return false;
  const auto session = session_of_recording(clock.path);
  if (!session) return false;
  clock.syncs = session->brackets();
  return session->has_all_syncs() && !clock.syncs.empty();
}

void add_evidence(const CollectedEvidence& evidence, clocks::SourceClock& clock) {
  if (!evidence.syncs.empty()) clock.syncs = evidence.syncs;
  if (!clock.interval) clock.interval = evidence.interval;
}

}  // namespace trapline
