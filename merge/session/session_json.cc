#include "merge/session/session_json.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "backend_ftrace/base/json_text.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;  // for writing
using parsed = nlohmann::json;

// The fields of each object in the order of the text, for both writer and reader. visit() is for a
// field that is always written; visit.known() for one that is left out if its value is 0, false or
// empty. Both return whether the field exists. of() returns whether an element of a list has all
// fields that it needs.
struct Fields {
  static bool of(auto& visit, ClockReadings& clocks) {
    for (std::size_t i = 0; i < kReadableClocks; ++i)
      (void)visit.known(std::string(kClockNames[i]), clocks.values[i]);
    return true;
  }
  static bool of(auto& visit, SessionHit& hit) {
    visit("at_ns", hit.at_ns);
    visit("ns", hit.ns);
    visit("reason", hit.reason);
    visit("tid", hit.tid);
    visit.known("vcpu", hit.vcpu);
    visit.known("open", hit.open);
    visit.known("near_loss", hit.near_loss);
    return true;
  }
  static bool of(auto& visit, SessionWindow& window) {
    const bool begins = visit("from_ns", window.from_ns);
    return visit("to_ns", window.to_ns) && begins;
  }
  static bool of(auto& visit, SessionFlight& flight) {
    visit("asked_by", flight.asked_by);
    visit("why", flight.why);
    visit("span_ns", flight.span_ns);
    visit("from_ns", flight.from_ns);
    visit("to_ns", flight.to_ns);
    visit("shortened", flight.shortened);
    visit("refused", flight.refused);
    return true;
  }
  static bool of(auto& visit, SessionSnapshot& snapshot) {
    visit("on", snapshot.on);
    visit("around_ns", snapshot.around_ns);
    visit("hits", snapshot.hits);
    visit("shortened", snapshot.shortened);
    visit("near_loss", snapshot.near_loss);
    visit("kept_events", snapshot.kept_events);
    visit("left_out_events", snapshot.left_out_events);
    visit("unwritten_events", snapshot.unwritten_events);
    visit.known("whole_run", snapshot.whole_run);
    visit.known("longest", snapshot.longest);
    visit("first_hits", snapshot.first_hits);
    visit("windows", snapshot.windows);
    visit("first_windows", snapshot.first_windows);
    return true;
  }
  static bool of(auto& visit, CpuLoss& loss) {
    const bool named = visit("cpu", loss.cpu);
    visit("overwritten", loss.overwritten);
    visit("dropped", loss.dropped);
    visit("unwritten_pages", loss.unwritten_pages);
    visit("unread", loss.unread);
    visit.known("read_by_others", loss.read_by_others);
    return named;
  }
  static bool of(auto& visit, SessionChange& change) {
    visit("files", change.files);
    const bool begins = visit("from_ns", change.from_ns), ends = visit("to_ns", change.to_ns);
    visit.known("goes_on", change.goes_on);
    return begins && ends && change.from_ns <= change.to_ns;
  }
  static bool of(auto& visit, SessionPart& part) {
    const bool is_named = visit("name", part.name);
    return visit("size", part.size) && is_named;
  }
  static bool of(auto& visit, SessionVm& vm) {
    const bool is_process = visit("pid", vm.pid);
    visit("name", vm.name);
    return is_process;
  }
  static bool of(auto& visit, SessionThread& thread) {
    const bool is_thread = visit("tid", thread.tid), has_process = visit("pid", thread.pid);
    visit("name", thread.name);
    visit.known("ran_ns", thread.ran_ns);
    visit.known("turns", thread.turns);
    return is_thread && has_process;
  }
  // A cgroup's counts that decreased, or are missing, are 0: they prove nothing.
  static bool of(auto& visit, SessionCgroup& cgroup) {
    visit("path", cgroup.path);
    visit("nr_throttled", cgroup.throttled);
    visit("throttled_ns", cgroup.throttled_ns);
    for (auto* counts : {&cgroup.throttled, &cgroup.throttled_ns})
      (*counts)[1] = std::max((*counts)[0], (*counts)[1]);
    visit.known("usage_usec", cgroup.usage_usec);
    visit("threads", cgroup.threads);
    std::erase_if(cgroup.threads, [](std::int32_t tid) { return tid < 0; });
    return true;
  }
  static bool of(auto& visit, SessionSync& sync) {
    visit("series", sync.series);
    visit("index", sync.index);
    visit.known("stamp_ns", sync.stamp);
    const bool before = visit("before", sync.before), after = visit("after", sync.after);
    std::string adjustment = sync.adjustment ? text_of(*sync.adjustment) : std::string();
    visit.known("adjtimex", adjustment);
    sync.adjustment = parse_adjustment(adjustment);
    return before && after;
  }
  static bool of(auto& visit, SessionSlot& slot) {
    const bool begins = visit("first", slot.first), ends = visit("last", slot.last);
    visit("name", slot.name);
    visit.known("offset", slot.offset);
    return begins && ends && slot.first <= slot.last;
  }
  static bool of(auto& visit, SessionMemory& memory) {
    const bool is_process = visit("pid", memory.pid);
    visit("anonymous", memory.anonymous);
    visit("file", memory.file);
    visit("shared", memory.shared);
    visit("swapped", memory.swapped);
    return is_process;
  }
  static bool of(auto& visit, SessionEdge& edge) {
    visit.known("huge_pages", edge.huge_pages);
    visit.known("same_pages", edge.same_pages);
    visit.known("swaps", edge.swaps);
    visit.known("memory_kb", edge.memory);
    visit.known("slots", edge.slots);
    if (edge.slots.size() > kMostSlots) edge.slots.clear();  // some slots alone would mislead
    return true;
  }
  static bool of(auto& visit, SessionHost& host) {
    visit("kernel", host.kernel);
    visit("cpus", host.cpus);
    visit("machine", host.machine);
    visit("name", host.name);
    visit.known("boot_id", host.boot_id);
    visit.known("irq_time_apart", host.irq_time_apart);
    visit.known("steal_time_apart", host.steal_time_apart);
    return true;
  }
  static bool of(auto& visit, SessionJson& session) {
    int version = 1;
    visit("version", version);
    visit("closed", session.closed);
    visit("command", session.command);
    visit("added", session.added);
    visit.known("pid", session.pid);
    visit.known("user", session.user);
    visit("host", session.host);
    visit.object("versions", [&session](auto& versions) {
      versions("trapline", session.trapline_version);
      versions.known("qemu", session.qemu_version);
    });
    visit("clocks", session.clocks);
    visit.known("functions", session.functions);
    visit("start_real_ns", session.start_real_ns);
    visit.known("end_real_ns", session.end_real_ns);
    visit.object("recorder", [&session](auto& recorder) {
      recorder("instance", session.instance);
      recorder("pid", session.recorder_pid);
      recorder("buffer_kb", session.buffer_kb);
    });
    visit.known("snapshot", session.snapshot);
    visit.known("flight", session.flight);
    visit.known("ended_by", session.ended_by);
    visit.known("warnings", session.warnings);
    visit.known("exit_status", session.exit_status);
    visit("losses", session.losses);
    visit.known("changes", session.changes);
    visit("events", session.events);
    visit.known("swaps", session.swaps);
    visit.known("edges", session.edges);
    visit("vms", session.vms);
    visit("threads", session.threads);
    visit("cgroups", session.cgroups);
    visit("sync", session.sync);
    visit.known("parts", session.parts);
    return true;
  }
};

using Texts = std::vector<std::pair<std::string, std::string>>;  // an object of texts

class Writer {
 public:
  bool operator()(const std::string& key, auto& value) {
    object_[key] = of(value);
    return true;
  }
  template <typename T>
  bool known(const std::string& key, T& value) {
    return value != T() && (*this)(key, value);
  }
  template <typename T>
  bool known(const std::string& key, std::vector<T>& values) {
    return !values.empty() && (*this)(key, values);
  }
  template <typename T>
  bool known(const std::string& key, std::optional<T>& value) {
    return value && (*this)(key, *value);
  }
  void object(const std::string& key, const auto& write) {
    Writer inner;
    write(inner);
    object_[key] = std::move(inner.object_);
  }
  [[nodiscard]] static json of(auto& value) {
    if constexpr (requires(Writer & inner) { Fields::of(inner, value); }) {
      Writer inner;
      (void)Fields::of(inner, value);
      return std::move(inner.object_);
    } else {
      return value;
    }
  }
  template <typename T>
  [[nodiscard]] static json of(std::vector<T>& values) {
    json list = json::array();
    for (T& value : values) list.push_back(of(value));
    return list;
  }
  [[nodiscard]] static json of(Texts& texts) {
    json object = json::object();
    for (const auto& [key, text] : texts) object[key] = text;
    return object;
  }

 private:
  json object_ = json::object();
};

// Reads from nlohmann::json, since ordered_json searches for keys linearly. A value stays as it was
// if its field is missing or has another type.
class Reader {
 public:
  explicit Reader(const parsed& from) : from_(from) {}
  bool operator()(const std::string& key, auto& value) {
    const auto found = from_.find(key);
    return found != from_.end() && read(*found, value);
  }
  bool known(const std::string& key, auto& value) { return (*this)(key, value); }
  void object(const std::string& key, const auto& read) {
    const auto found = from_.find(key);
    if (found == from_.end() || !found->is_object()) return;
    Reader inner(*found);
    read(inner);
  }
  template <typename T>
  static bool read(const parsed& from, T& value) {
    if constexpr (std::is_integral_v<T>) {
      return read_number(from, value);
    } else {
      if (!from.is_object()) return false;
      Reader inner(from);
      return Fields::of(inner, value);
    }
  }
  static bool read(const parsed& from, std::string& value) {
    if (from.is_string()) value = from.get<std::string>();
    return from.is_string();
  }
  static bool read(const parsed& from, bool& value) {
    if (from.is_boolean()) value = from.get<bool>();
    return from.is_boolean();
  }
  static bool read(const parsed& from, std::array<std::uint64_t, 2>& values) {
    if (!from.is_array() || from.size() != 2) return false;
    if (!from[0].is_number_unsigned() || !from[1].is_number_unsigned()) return false;
    values = {from[0].get<std::uint64_t>(), from[1].get<std::uint64_t>()};
    return true;
  }
  template <typename T>
  static bool read(const parsed& from, std::optional<T>& value) {
    T there{};
    if (read(from, there)) value = std::move(there);
    return value.has_value();
  }
  template <typename T>
  static bool read(const parsed& from, std::vector<T>& values) {
    if (!from.is_array()) return false;
    for (const parsed& element : from) {
      T value{};
      if (read(element, value)) values.push_back(std::move(value));
    }
    return true;
  }
  static bool read(const parsed& from, Texts& texts) {
    if (!from.is_object()) return false;
    for (const auto& [key, text] : from.items())
      if (text.is_string()) texts.emplace_back(key, text.get<std::string>());
    return true;
  }

 private:
  template <typename Number>
  static bool read_number(const parsed& from, Number& value) {
    const auto take = [&value](auto number) {
      const bool fits = std::in_range<Number>(number);
      if (fits) value = static_cast<Number>(number);
      return fits;
    };
    if (from.is_number_unsigned()) return take(from.get<std::uint64_t>());
    return from.is_number_integer() && take(from.get<std::int64_t>());
  }

  const parsed& from_;
};

bool is_ordered(const SessionSync& sync) {
  for (std::size_t i = 0; i < kReadableClocks; ++i)
    if (sync.after.values[i] < sync.before.values[i]) return false;
  return true;
}

}  // namespace

std::vector<clocks::SyncEntry> SessionJson::brackets() const {
  std::vector<clocks::SyncEntry> entries;
  for (const SessionSync& bracket : sync) {
    if (!bracket.stamp || !is_ordered(bracket)) continue;
    entries.push_back(
        {bracket.series, {*bracket.stamp, bracket.before, bracket.after, bracket.adjustment}});
  }
  std::ranges::stable_sort(entries, {},
                           [](const clocks::SyncEntry& entry) { return entry.point.stamp; });
  return entries;
}

std::vector<std::string> SessionJson::missing() const {
  std::uint64_t pages = 0, unread = 0, others = 0;
  for (const CpuLoss& loss : losses) {
    pages += loss.unwritten_pages;
    unread += loss.unread;
    others += loss.read_by_others;
  }
  std::vector<std::string> sentences;
  if (!unreadable.empty())
    sentences.push_back("whether all events were recorded is not known: " + printable(unreadable));
  if (pages != 0)
    sentences.push_back(std::to_string(pages) + " pages of events could not be written");
  if (unread != 0) sentences.push_back(std::to_string(unread) + " events were left in the kernel");
  if (others != 0)
    sentences.push_back("at least " + std::to_string(others) +
                        " events were read by another process");
  for (const SessionChange& change : changes) {
    std::string files = change.files.empty() ? "" : change.files.front();
    if (change.files.size() > 1) files += fmt::format(" and {} more", change.files.size() - 1);
    sentences.push_back(fmt::format(
        "another process wrote {} of the instance: {}", printable(files),
        change.to_ns == 0 ? "events of any time may be missing"
                          : fmt::format("the events of {:.1f} s are a loss",
                                        static_cast<double>(change.to_ns - change.from_ns) / 1e9)));
  }
  // An error contains spaces; the other values are single words.
  if (ended_by.find(' ') != std::string::npos)
    sentences.push_back("the recording was cut short: " + printable(ended_by));
  return sentences;
}

// Returns false if the recording may have more sync records than session.json. If there are
// kMostSyncs or more, session.json has only some of them; if the session was not closed, it lacks
// the last; in a flight recorder's snapshot, it has none. With --snapshot-on, the recording itself
// lacks most of the markers.
bool SessionJson::has_all_syncs() const {
  if (flight) return false;
  return (closed && sync.size() < kMostSyncs) || snapshot.has_value();
}

std::string to_text(const SessionJson& session) {
  SessionJson written = session;
  // A thread's name or an argument may contain any bytes.
  return Writer::of(written).dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::uint64_t size_of_part(const Folder& session, const std::string& name) {
  const auto status = session.look_at(name);
  if (!status || S_ISREG(status->st_mode))
    return status ? static_cast<std::uint64_t>(status->st_size) : 0;
  const auto inside = session.open_folder(name);
  const auto names = inside ? inside->names() : tl::unexpected(inside.error());
  if (!names) return 0;
  std::uint64_t size = 0;
  for (const std::string& file : *names) {
    const auto one = inside->look_at(file);
    if (one && S_ISREG(one->st_mode)) size += static_cast<std::uint64_t>(one->st_size);
  }
  return size;
}

Result<void> write_session_json(const Folder& folder, const SessionJson& session) {
  SessionJson written = session;
  written.parts.clear();
  for (const char* name : kSessionParts) {
    const std::uint64_t size = session.closed ? size_of_part(folder, name) : 0;
    if (size != 0) written.parts.push_back({name, size});
  }
  return folder.replace("session.json", to_text(written), 0600, Durable::kYes);
}

std::optional<SessionJson> parse_session_json(const std::string& text) {
  if (!is_bounded_json(text)) return std::nullopt;
  const parsed from = parsed::parse(text, nullptr, false);
  if (!from.is_object()) return std::nullopt;
  SessionJson session;
  (void)Reader::read(from, session);
  return session;
}

std::optional<SessionJson> read_session_json(const std::string& folder) {
  const std::string path = folder + "/session.json";
  const auto text = read_text(path, kMostJson);
  if (!text && !is_there(path)) return std::nullopt;
  auto session = text ? parse_session_json(*text) : std::nullopt;
  if (session) return session;
  session.emplace().unreadable = text ? path + ": no whole JSON object" : text.error().message;
  return session;
}

std::optional<SessionJson> session_of_recording(const std::string& path) {
  const fs::path file(path);
  if (file.filename() != "trace.dat") return std::nullopt;
  return read_session_json(file.has_parent_path() ? file.parent_path().string() : ".");
}

}  // namespace trapline
