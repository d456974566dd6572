#include "merge/record/session.h"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/session/finish.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

json host_facts() {
  utsname name{};
  ::uname(&name);
  return {{"kernel", name.release},
          {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"machine", name.machine},
          {"name", name.nodename}};
}

json readings(const ClockReadings& clocks) {
  json values = json::object();
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (clocks.values[i] != 0) values[std::string(kClockNames[i])] = clocks.values[i];
  }
  return values;
}

json hit_facts(const Hit& hit) {
  json facts = {{"at_ns", hit.start},
                {"ns", hit.end - hit.start},
                {"reason", hit.reason},
                {"tid", static_cast<std::int32_t>(hit.thread)}};
  if (hit.vcpu != kNoVcpu) facts["vcpu"] = hit.vcpu;
  if (hit.open) facts["open"] = true;
  if (hit.near_loss) facts["near_loss"] = true;
  return facts;
}

json snapshot_facts(const Session& session) {
  const SnapshotFacts& facts = session.snapshot;
  json first = json::array(), windows = json::array();
  for (const Hit& hit : facts.first_hits) first.push_back(hit_facts(hit));
  for (const Window& window : facts.first_windows) {
    windows.push_back({{"from_ns", window.from}, {"to_ns", window.to}});
  }
  json text = {{"on", session.snapshot_on},
               {"around_ns", session.around_ns},
               {"hits", facts.hits},
               {"shortened", facts.shortened},
               {"near_loss", facts.near_loss},
               {"kept_events", facts.kept_events},
               {"left_out_events", facts.left_out_events},
               {"unwritten_events", facts.unwritten_events}};
  if (!facts.cannot_hit.empty()) text["cannot_hit"] = facts.cannot_hit;
  if (session.functions) text["whole_run"] = json::array({"uftrace.data"});
  if (facts.hits != 0) text["longest"] = hit_facts(facts.longest);
  text["first_hits"] = std::move(first);
  text["windows"] = facts.windows;
  text["first_windows"] = std::move(windows);
  return text;
}

json lists_of(const Session& session, const char* what) {
  json list = json::array();
  if (std::string_view(what) == "threads") {
    for (const auto& [tid, thread] : session.threads) {
      list.push_back({{"tid", tid}, {"pid", thread.pid}, {"name", thread.name}});
    }
  } else if (std::string_view(what) == "sync") {
    for (const SyncBracket& bracket : session.sync) {
      json entry = {{"series", bracket.series}, {"index", bracket.index}};
      if (bracket.stamp) entry["stamp_ns"] = *bracket.stamp;
      entry["before"] = readings(bracket.before);
      entry["after"] = readings(bracket.after);
      list.push_back(std::move(entry));
    }
  } else if (std::string_view(what) == "losses") {
    for (const CpuLoss& loss : session.losses) {
      list.push_back({{"cpu", loss.cpu},
                      {"overwritten", loss.overwritten},
                      {"dropped", loss.dropped},
                      {"unwritten_pages", loss.unwritten_pages},
                      {"unread", loss.unread}});
    }
  } else {
    for (const EventName& event : session.events) list.push_back(event.system + ":" + event.name);
  }
  return list;
}

// Whether the folder may be replaced: an earlier session of ours.
bool is_session(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "session.json", error);
}

}  // namespace

std::string session_text(const Session& session) {
  json text;
  text["version"] = 1;
  text["closed"] = session.closed;
  text["command"] = session.command;
  text["added"] = session.added;
  if (session.pid != 0) text["pid"] = session.pid;
  if (!session.user.empty()) text["user"] = session.user;
  text["host"] = host_facts();
  text["versions"] = {{"trapline", session.trapline_version}};
  if (!session.qemu_version.empty()) text["versions"]["qemu"] = session.qemu_version;
  text["clocks"] = {{"trace.dat", session.clock}};
  if (session.functions) text["clocks"]["uftrace.data"] = "mono";
  text["start_real_ns"] = session.start_real_ns;
  if (session.end_real_ns != 0) text["end_real_ns"] = session.end_real_ns;
  text["recorder"] = {
      {"instance", session.instance}, {"pid", ::getpid()}, {"buffer_kb", session.buffer_kb}};
  if (!session.snapshot_on.empty()) text["snapshot"] = snapshot_facts(session);
  if (!session.ended_by.empty()) text["ended_by"] = session.ended_by;
  if (!session.warnings.empty()) text["warnings"] = session.warnings;
  if (session.exit_status) text["exit_status"] = *session.exit_status;
  for (const char* what : {"losses", "events", "threads", "sync"}) {
    text[what] = lists_of(session, what);
  }
  // A thread's name or an argument may be any bytes.
  return text.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<void> write_session(const std::string& folder, const Session& session) {
  return replace_file(folder + "/session.json", session_text(session));
}

Result<void> make_session_folder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error)) && !fs::is_empty(folder, error)) {
    if (!is_session(folder)) {
      return fail(ErrorKind::kUsage,
                  "{}: there is something that is no session; give another "
                  "name: -o DIR",
                  folder);
    }
    if (fs::exists(folder + "/raw", error)) {
      if (auto lock = lock_session(folder); !lock) return tl::unexpected(lock.error());
    }
    const std::string old = folder + ".old";
    if (fs::exists(fs::symlink_status(old, error))) {
      if (!is_session(old)) {
        return fail(ErrorKind::kUsage,
                    "{}: there is something that is no session, so the earlier "
                    "{} cannot be kept under that name; give another name: -o DIR",
                    old, folder);
      }
      fs::remove_all(old, error);
    }
    if (::rename(folder.c_str(), old.c_str()) != 0) {
      return fail("{}: cannot be renamed to {}: {}", folder, old, std::strerror(errno));
    }
  }
  for (const std::string& path : {folder, folder + "/raw"}) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail("{}: {}", path, std::strerror(errno));
    }
  }
  return {};
}

CpuLoss read_loss(unsigned cpu, const std::string& stats) {
  const auto value = [&stats](std::string_view title) -> std::uint64_t {
    const auto at = ("\n" + stats).find("\n" + std::string(title) + ": ");
    if (at == std::string::npos) return 0;
    const auto from = at + title.size() + 2;
    return parse_number(
               trimmed(std::string_view(stats).substr(from, stats.find('\n', from) - from)))
        .value_or(0);
  };
  return {cpu, value("overrun"), value("dropped events") + value("commit overrun"), 0,
          value("entries")};
}

}  // namespace trapline::record
