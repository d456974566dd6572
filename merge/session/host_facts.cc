#include "merge/session/host_facts.h"

#include <fmt/ranges.h>

#include <cmath>

#include "merge/session/session_json.h"

namespace trapline {
namespace {

bool has_real(const SyncPoint& point) {
  const std::uint64_t before = point.before.at(ClockId::kReal);
  return before != 0 && point.after.at(ClockId::kReal) >= before;
}

std::uint64_t middle(const SyncPoint& point) {
  const std::uint64_t before = point.before.at(ClockId::kReal);
  return before + (point.after.at(ClockId::kReal) - before) / 2;
}

std::vector<std::pair<std::string, std::string>> facts_of(const SessionJson& session) {
  const std::string command = fmt::format("{}", fmt::join(session.command, " "));
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [name, text] :
       {std::pair{"command", command}, std::pair{"trapline version", session.trapline_version},
        std::pair{"QEMU version", session.qemu_version}}) {
    if (!text.empty()) facts.emplace_back(name, text);
  }
  return facts;
}

}  // namespace

std::optional<WallClock> wall_clock_of(std::vector<clocks::SyncEntry> entries) {
  std::erase_if(entries, [](const clocks::SyncEntry& entry) { return !has_real(entry.point); });
  if (entries.empty()) return std::nullopt;
  const SyncPoint &first = entries.front().point, &last = entries.back().point;
  WallClock wall{first.stamp, middle(first), 0};
  // The least time, in ns, between the two readings: over a shorter one, the readings' error hides
  // the difference of the clocks' rates.
  constexpr std::uint64_t kApart = 1'000'000'000;
  // A wall clock that was set between the two readings has no rate: only its first time is used.
  constexpr double kMostRate = 1e-3;
  if (last.stamp > first.stamp + kApart) {
    const auto passed = static_cast<double>(last.stamp - first.stamp);
    const double real = static_cast<double>(middle(last)) - static_cast<double>(wall.real);
    const double rate = real / passed - 1;
    if (std::abs(rate) < kMostRate) wall.rate = rate;
  }
  return wall;
}

HostFacts host_facts_of(const Source& leading) {
  const SourceInfo& info = leading.info();
  const auto session = session_of_recording(info.path);
  if (!session) return {};
  HostFacts facts{std::nullopt, session->host.boot_id, facts_of(*session)};
  // The session's wall clock does not fit a timeline in cycles or on another recording's clock.
  if (!info.cycles && info.aligned.offset_ns == 0)
    facts.wall_clock = wall_clock_of(session->brackets());
  return facts;
}

}  // namespace trapline
