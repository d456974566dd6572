// More than 400 lines: the reader and the writer of one format, field by field.
#include "merge/session/session_json.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/json_text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;  // written
using parsed = nlohmann::json;

// The recorder keeps at most so many sync series: from here on they are thinned out.
constexpr std::size_t kMostSyncs = 64;

// ---- writing

json readings_json(const ClockReadings& clocks) {
  json values = json::object();
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (clocks.values[i] != 0) values[std::string(kClockNames[i])] = clocks.values[i];
  }
  return values;
}

json hit_json(const SessionHit& hit) {
  json facts = {{"at_ns", hit.at_ns}, {"ns", hit.ns}, {"reason", hit.reason}, {"tid", hit.tid}};
  if (hit.vcpu) facts["vcpu"] = *hit.vcpu;
  if (hit.open) facts["open"] = true;
  if (hit.near_loss) facts["near_loss"] = true;
  return facts;
}

json flight_json(const SessionFlight& flight) {
  return {{"asked_by", flight.asked_by}, {"why", flight.why},     {"span_ns", flight.span_ns},
          {"from_ns", flight.from_ns},   {"to_ns", flight.to_ns}, {"shortened", flight.shortened},
          {"refused", flight.refused}};
}

json snapshot_json(const SessionSnapshot& snapshot) {
  json text = {{"on", snapshot.on},
               {"around_ns", snapshot.around_ns},
               {"hits", snapshot.hits},
               {"shortened", snapshot.shortened},
               {"near_loss", snapshot.near_loss},
               {"kept_events", snapshot.kept_events},
               {"left_out_events", snapshot.left_out_events},
               {"unwritten_events", snapshot.unwritten_events}};
  if (!snapshot.cannot_hit.empty()) text["cannot_hit"] = snapshot.cannot_hit;
  if (!snapshot.whole_run.empty()) text["whole_run"] = snapshot.whole_run;
  if (snapshot.longest) text["longest"] = hit_json(*snapshot.longest);
  json first = json::array(), windows = json::array();
  for (const SessionHit& hit : snapshot.first_hits) first.push_back(hit_json(hit));
  for (const SessionWindow& window : snapshot.first_windows) {
    windows.push_back({{"from_ns", window.from_ns}, {"to_ns", window.to_ns}});
  }
  text["first_hits"] = std::move(first);
  text["windows"] = snapshot.windows;
  text["first_windows"] = std::move(windows);
  return text;
}

json cgroups_json(const std::vector<SessionCgroup>& cgroups) {
  json list = json::array();
  for (const SessionCgroup& cgroup : cgroups) {
    list.push_back({{"path", cgroup.path},
                    {"nr_throttled", {cgroup.throttled_before, cgroup.throttled_after}},
                    {"throttled_ns", {cgroup.throttled_ns_before, cgroup.throttled_ns_after}},
                    {"threads", cgroup.threads}});
  }
  return list;
}

void add_lists(const SessionJson& session, json& text) {
  json losses = json::array(), vms = json::array(), threads = json::array(), sync = json::array();
  for (const CpuLoss& loss : session.losses) {
    losses.push_back({{"cpu", loss.cpu},
                      {"overwritten", loss.overwritten},
                      {"dropped", loss.dropped},
                      {"unwritten_pages", loss.unwritten_pages},
                      {"unread", loss.unread}});
  }
  for (const SessionVm& vm : session.vms) vms.push_back({{"pid", vm.pid}, {"name", vm.name}});
  for (const SessionThread& thread : session.threads) {
    threads.push_back({{"tid", thread.tid}, {"pid", thread.pid}, {"name", thread.name}});
  }
  for (const SessionSync& bracket : session.sync) {
    json entry = {{"series", bracket.series}, {"index", bracket.index}};
    if (bracket.stamp) entry["stamp_ns"] = *bracket.stamp;
    entry["before"] = readings_json(bracket.before);
    entry["after"] = readings_json(bracket.after);
    if (bracket.adjustment) entry["adjtimex"] = text_of(*bracket.adjustment);
    sync.push_back(std::move(entry));
  }
  text["losses"] = std::move(losses);
  text["events"] = session.events;
  text["vms"] = std::move(vms);
  text["threads"] = std::move(threads);
  text["cgroups"] = cgroups_json(session.cgroups);
  text["sync"] = std::move(sync);
}

// ---- reading, by keys that are looked up: ordered_json would walk them. Each get() leaves its
// value as it was where the field is missing or of another type

void get(const parsed& from, const char* key, std::string& value) {
  const auto found = from.find(key);
  if (found != from.end() && found->is_string()) value = found->get<std::string>();
}
void get(const parsed& from, const char* key, bool& value) {
  const auto found = from.find(key);
  if (found != from.end() && found->is_boolean()) value = found->get<bool>();
}
template <typename Number>
bool get_number(const parsed& from, const char* key, Number& value) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number_integer()) return false;
  if (found->is_number_unsigned()) {
    const auto number = found->get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<Number>::max())) return false;
    value = static_cast<Number>(number);
    return true;
  }
  const auto number = found->get<std::int64_t>();
  if (std::numeric_limits<Number>::min() == 0 ||
      number < static_cast<std::int64_t>(std::numeric_limits<Number>::min())) {
    return false;
  }
  value = static_cast<Number>(number);
  return true;
}
void get(const parsed& from, const char* key, std::vector<std::string>& value) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) return;
  for (const parsed& element : *found) {
    if (element.is_string()) value.push_back(element.get<std::string>());
  }
}
// The counts of a cgroup that went back, or are missing, are 0: they prove nothing.
void get(const parsed& from, std::vector<SessionCgroup>& cgroups) {
  const auto counts = [](const parsed& element, const char* key, std::uint64_t& before,
                         std::uint64_t& after) {
    const auto pair = element.find(key);
    if (pair == element.end() || !pair->is_array() || pair->size() != 2) return;
    if (!(*pair)[0].is_number_unsigned() || !(*pair)[1].is_number_unsigned()) return;
    before = (*pair)[0].get<std::uint64_t>();
    after = std::max(before, (*pair)[1].get<std::uint64_t>());
  };
  const auto list = from.find("cgroups");
  if (list == from.end() || !list->is_array()) return;
  for (const parsed& element : *list) {
    if (!element.is_object()) continue;
    SessionCgroup cgroup;
    get(element, "path", cgroup.path);
    counts(element, "nr_throttled", cgroup.throttled_before, cgroup.throttled_after);
    counts(element, "throttled_ns", cgroup.throttled_ns_before, cgroup.throttled_ns_after);
    const auto threads = element.find("threads");
    for (std::size_t i = 0; threads != element.end() && i < threads->size(); ++i) {
      if (!threads->is_array() || !(*threads)[i].is_number_unsigned()) continue;
      const auto tid = (*threads)[i].get<std::uint64_t>();
      if (tid <= std::numeric_limits<std::int32_t>::max())
        cgroup.threads.push_back(static_cast<std::int32_t>(tid));
    }
    cgroups.push_back(std::move(cgroup));
  }
}
parsed object_in(const parsed& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_object() ? *found : parsed::object();
}
// The objects of a list.
template <typename Take>
void each_in(const parsed& from, const char* key, Take&& take) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) return;
  for (const parsed& element : *found) {
    if (element.is_object()) take(element);
  }
}

bool get(const parsed& from, const char* key, ClockReadings& readings) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_object()) return false;
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    (void)get_number(*found, std::string(kClockNames[i]).c_str(), readings.values[i]);
  }
  return true;
}

SessionHit read_hit(const parsed& from) {
  SessionHit hit;
  (void)get_number(from, "at_ns", hit.at_ns);
  (void)get_number(from, "ns", hit.ns);
  get(from, "reason", hit.reason);
  (void)get_number(from, "tid", hit.tid);
  if (std::int32_t vcpu = 0; get_number(from, "vcpu", vcpu)) hit.vcpu = vcpu;
  get(from, "open", hit.open);
  get(from, "near_loss", hit.near_loss);
  return hit;
}

SessionFlight read_flight(const parsed& from) {
  SessionFlight flight;
  get(from, "asked_by", flight.asked_by);
  get(from, "why", flight.why);
  (void)get_number(from, "span_ns", flight.span_ns);
  (void)get_number(from, "from_ns", flight.from_ns);
  (void)get_number(from, "to_ns", flight.to_ns);
  get(from, "shortened", flight.shortened);
  (void)get_number(from, "refused", flight.refused);
  return flight;
}

SessionSnapshot read_snapshot(const parsed& from) {
  SessionSnapshot snapshot;
  get(from, "on", snapshot.on);
  (void)get_number(from, "around_ns", snapshot.around_ns);
  (void)get_number(from, "hits", snapshot.hits);
  (void)get_number(from, "shortened", snapshot.shortened);
  (void)get_number(from, "near_loss", snapshot.near_loss);
  (void)get_number(from, "kept_events", snapshot.kept_events);
  (void)get_number(from, "left_out_events", snapshot.left_out_events);
  (void)get_number(from, "unwritten_events", snapshot.unwritten_events);
  get(from, "cannot_hit", snapshot.cannot_hit);
  get(from, "whole_run", snapshot.whole_run);
  if (from.contains("longest") && from["longest"].is_object()) {
    snapshot.longest = read_hit(from["longest"]);
  }
  each_in(from, "first_hits",
          [&](const parsed& hit) { snapshot.first_hits.push_back(read_hit(hit)); });
  (void)get_number(from, "windows", snapshot.windows);
  each_in(from, "first_windows", [&](const parsed& element) {
    SessionWindow window;
    if (get_number(element, "from_ns", window.from_ns) &&
        get_number(element, "to_ns", window.to_ns)) {
      snapshot.first_windows.push_back(window);
    }
  });
  return snapshot;
}

void read_lists(const parsed& from, SessionJson& session) {
  each_in(from, "losses", [&](const parsed& element) {
    CpuLoss loss;
    if (!get_number(element, "cpu", loss.cpu)) return;
    (void)get_number(element, "overwritten", loss.overwritten);
    (void)get_number(element, "dropped", loss.dropped);
    (void)get_number(element, "unwritten_pages", loss.unwritten_pages);
    (void)get_number(element, "unread", loss.unread);
    session.losses.push_back(loss);
  });
  get(from, "events", session.events);
  each_in(from, "vms", [&](const parsed& element) {
    SessionVm vm;
    get(element, "name", vm.name);
    if (get_number(element, "pid", vm.pid)) session.vms.push_back(std::move(vm));
  });
  each_in(from, "threads", [&](const parsed& element) {
    SessionThread thread;
    get(element, "name", thread.name);
    if (get_number(element, "tid", thread.tid) && get_number(element, "pid", thread.pid)) {
      session.threads.push_back(std::move(thread));
    }
  });
  get(from, session.cgroups);
  each_in(from, "sync", [&](const parsed& element) {
    SessionSync sync;
    (void)get_number(element, "series", sync.series);
    (void)get_number(element, "index", sync.index);
    if (std::uint64_t stamp = 0; get_number(element, "stamp_ns", stamp)) sync.stamp = stamp;
    std::string adjustment;
    get(element, "adjtimex", adjustment);
    sync.adjustment = parse_adjustment(adjustment);
    if (get(element, "before", sync.before) && get(element, "after", sync.after)) {
      session.sync.push_back(sync);
    }
  });
}

bool is_ordered(const SessionSync& sync) {
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (sync.after.values[i] < sync.before.values[i]) return false;
  }
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

// From so many on they are thinned out; of a session that was cut the last are missing. A snapshot
// left most of the markers out of the recording; the flight recorder's has them only there.
bool SessionJson::has_all_syncs() const {
  if (flight) return false;
  return (closed && sync.size() < kMostSyncs) || snapshot.has_value();
}

std::string to_text(const SessionJson& session) {
  json text;
  text["version"] = 1;
  text["closed"] = session.closed;
  text["command"] = session.command;
  text["added"] = session.added;
  if (session.pid != 0) text["pid"] = session.pid;
  if (!session.user.empty()) text["user"] = session.user;
  text["host"] = {{"kernel", session.host.kernel},
                  {"cpus", session.host.cpus},
                  {"machine", session.host.machine},
                  {"name", session.host.name}};
  if (!session.host.boot_id.empty()) text["host"]["boot_id"] = session.host.boot_id;
  text["versions"] = {{"trapline", session.trapline_version}};
  if (!session.qemu_version.empty()) text["versions"]["qemu"] = session.qemu_version;
  text["clocks"] = json::object();
  for (const auto& [part, clock] : session.clocks) text["clocks"][part] = clock;
  if (!session.functions.empty()) text["functions"] = session.functions;
  text["start_real_ns"] = session.start_real_ns;
  if (session.end_real_ns != 0) text["end_real_ns"] = session.end_real_ns;
  text["recorder"] = {{"instance", session.instance},
                      {"pid", session.recorder_pid},
                      {"buffer_kb", session.buffer_kb}};
  if (session.snapshot) text["snapshot"] = snapshot_json(*session.snapshot);
  if (session.flight) text["flight"] = flight_json(*session.flight);
  if (!session.ended_by.empty()) text["ended_by"] = session.ended_by;
  if (!session.warnings.empty()) text["warnings"] = session.warnings;
  if (session.exit_status) text["exit_status"] = *session.exit_status;
  add_lists(session, text);
  // A thread's name or an argument may be any bytes.
  return text.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<void> write_session_json(const Folder& folder, const SessionJson& session) {
  return folder.replace("session.json", to_text(session), 0600, Durable::kYes);
}

std::optional<SessionJson> parse_session_json(const std::string& text) {
  if (!is_bounded_json(text)) return std::nullopt;
  const parsed from = parsed::parse(text, nullptr, false);
  if (!from.is_object()) return std::nullopt;
  SessionJson session;
  get(from, "closed", session.closed);
  get(from, "command", session.command);
  get(from, "added", session.added);
  (void)get_number(from, "pid", session.pid);
  get(from, "user", session.user);
  const parsed host = object_in(from, "host");
  get(host, "kernel", session.host.kernel);
  (void)get_number(host, "cpus", session.host.cpus);
  get(host, "machine", session.host.machine);
  get(host, "name", session.host.name);
  get(host, "boot_id", session.host.boot_id);
  const parsed versions = object_in(from, "versions");
  get(versions, "trapline", session.trapline_version);
  get(versions, "qemu", session.qemu_version);
  const parsed clocks = object_in(from, "clocks");
  for (const auto& [part, clock] : clocks.items()) {
    if (clock.is_string()) session.clocks.emplace_back(part, clock.get<std::string>());
  }
  get(from, "functions", session.functions);
  (void)get_number(from, "start_real_ns", session.start_real_ns);
  (void)get_number(from, "end_real_ns", session.end_real_ns);
  const parsed recorder = object_in(from, "recorder");
  get(recorder, "instance", session.instance);
  (void)get_number(recorder, "pid", session.recorder_pid);
  (void)get_number(recorder, "buffer_kb", session.buffer_kb);
  const auto snapshot = from.find("snapshot");
  if (snapshot != from.end() && snapshot->is_object()) session.snapshot = read_snapshot(*snapshot);
  const auto flight = from.find("flight");
  if (flight != from.end() && flight->is_object()) session.flight = read_flight(*flight);
  get(from, "ended_by", session.ended_by);
  get(from, "warnings", session.warnings);
  if (int status = 0; get_number(from, "exit_status", status)) session.exit_status = status;
  read_lists(from, session);
  return session;
}

std::optional<SessionJson> read_session_json(const std::string& folder) {
  const auto text = read_text(folder + "/session.json", kMostJson);
  return text ? parse_session_json(*text) : std::nullopt;
}

std::optional<SessionJson> session_of_recording(const std::string& path) {
  const fs::path file(path);
  if (file.filename() != "trace.dat") return std::nullopt;
  return read_session_json(file.has_parent_path() ? file.parent_path().string() : ".");
}

}  // namespace trapline
