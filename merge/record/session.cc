#include "merge/record/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/sync.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::record {

bool SyncLog::write_series(int marker_fd) {
  SyncSeries series;
  char text[kMaxSyncText];
  std::optional<SessionSync> best;
  std::optional<SyncRecord> previous;
  std::optional<ClockAdjustment> adjustment;
  for (std::size_t size; (size = series.next(text)) != 0;) {
    if (::write(marker_fd, text, size) < 0) return false;
    series.written();
    // The after-reading of a marker stands in the next one's text.
    auto record = parse_sync(std::string_view(text, size));
    if (record && record->adjustment) adjustment = record->adjustment;
    if (record && previous && previous->before && record->after) {
      const SessionSync bracket{previous->series, previous->index, *previous->before,
                                *record->after,   std::nullopt,    adjustment};
      const auto width = [](const SessionSync& b) {
        return b.after.at(ClockId::kMono) - b.before.at(ClockId::kMono);
      };
      if (!best || width(bracket) < width(*best)) best = bracket;
    }
    previous = record;
  }
  if (best) keep(*best);
  return true;
}

void SyncLog::stamp(std::uint64_t series, std::uint32_t index, std::uint64_t stamp) {
  for (SessionSync& bracket : brackets_) {
    if (bracket.series == series && bracket.index == index) bracket.stamp = stamp;
  }
}

void SyncLog::keep(const SessionSync& bracket) {
  if (last_is_extra_) brackets_.pop_back();
  brackets_.push_back(bracket);
  last_is_extra_ = seen_++ % stride_ != 0;
  if (brackets_.size() < kMostSyncs) return;
  std::vector<SessionSync> thinner;
  for (std::size_t i = 0; i < brackets_.size(); i += 2) thinner.push_back(brackets_[i]);
  if (brackets_.size() % 2 == 0) thinner.push_back(brackets_.back());
  last_is_extra_ = brackets_.size() % 2 == 0;
  brackets_ = std::move(thinner);
  stride_ *= 2;
}

namespace {

SessionHost host_facts() {
  utsname name{};
  ::uname(&name);
  const auto boot_id = read_text("/proc/sys/kernel/random/boot_id");
  return {name.release, name.machine, name.nodename, ::sysconf(_SC_NPROCESSORS_ONLN),
          boot_id ? std::string(trimmed(*boot_id)) : std::string()};
}

SessionHit facts_of(const Hit& hit) {
  SessionHit facts{
      hit.start, hit.end - hit.start, hit.reason, static_cast<std::int32_t>(hit.thread), {},
      hit.open,  hit.near_loss};
  if (hit.vcpu != kNoVcpu) facts.vcpu = hit.vcpu;
  return facts;
}

SessionSnapshot snapshot_of(const Session& session) {
  const SnapshotFacts& facts = session.snapshot_facts;
  SessionSnapshot snapshot;
  snapshot.on = session.snapshot_on;
  snapshot.around_ns = session.around_ns;
  snapshot.hits = facts.hits;
  snapshot.shortened = facts.shortened;
  snapshot.near_loss = facts.near_loss;
  snapshot.kept_events = facts.kept_events;
  snapshot.left_out_events = facts.left_out_events;
  snapshot.unwritten_events = facts.unwritten_events;
  snapshot.cannot_hit = facts.cannot_hit;
  if (session.out_in_session) snapshot.whole_run.emplace_back("uftrace.data");
  if (facts.hits != 0) snapshot.longest = facts_of(facts.longest);
  for (const Hit& hit : facts.first_hits) snapshot.first_hits.push_back(facts_of(hit));
  snapshot.windows = facts.windows;
  for (const Window& window : facts.first_windows) {
    snapshot.first_windows.push_back({window.from, window.to});
  }
  return snapshot;
}

}  // namespace

namespace {

// Of /proc/swaps, which begins with a line of titles.
std::vector<std::string> swaps() {
  std::vector<std::string> swaps;
  const std::string text = read_text("/proc/swaps").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const std::string path(line.substr(0, line.find_first_of(" \t")));
    if (!path.starts_with('/')) continue;
    struct stat status {};
    const bool is_device = ::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
    swaps.push_back(is_device ? fmt::format("{}:{}", major(status.st_rdev), minor(status.st_rdev))
                              : "file");
  }
  return swaps;
}

}  // namespace

SessionJson facts_of(const Session& session) {
  SessionJson facts = session;
  facts.host = host_facts();
  facts.swaps = swaps();
  facts.clocks.emplace_back("trace.dat", session.clock);
  if (session.out_in_session) facts.clocks.emplace_back("uftrace.data", "mono");
  if (session.plugin_calls != Functions::kNone) facts.functions = name_of(session.plugin_calls);
  facts.recorder_pid = ::getpid();
  if (!session.snapshot_on.empty()) facts.snapshot = snapshot_of(session);
  for (const EventName& event : session.enabled_events) {
    facts.events.push_back(event.system + ":" + event.name);
  }
  for (const auto& [tid, thread] : session.seen_threads) {
    facts.threads.push_back({tid, thread.pid, thread.name});
  }
  return facts;
}

Result<void> write_session(const Folder& folder, const Session& session) {
  auto wrote = write_session_json(folder, facts_of(session));
  return wrote && session.closed ? folder.sync() : wrote;
}

// One of both is there until the end. Where the disk does not answer nothing is proven.
Result<void> check_presence(const Folder& folder) {
  for (const char* name : {"raw", "trace.dat"}) {
    const auto there = folder.finds(name);
    if (!there || *there) return {};
  }
  return fail("{}: was removed while trapline recorded into it: nothing is kept; record again",
              folder.path());
}

CpuLoss read_loss(unsigned cpu, const std::string& stats) {
  const auto value = [&stats](std::string_view key) { return trace_dat::stat_number(stats, key); };
  return {cpu, value("overrun"), value("dropped events") + value("commit overrun"), 0,
          value("entries")};
}

}  // namespace trapline::record
