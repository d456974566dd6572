#include "merge/clock/assumption.h"

#include <algorithm>
#include <limits>

#include "backend_ftrace/base/text.h"

namespace trapline::clocks {
namespace {

// Checks that the difference between two clocks can be the same number in all readings. If not, the
// Error gives the two times between which it changed, followed by the text `rate`.
Result<void> check_distance(std::span<const SyncEntry> entries, ClockId clock, ClockId beside,
                            std::string_view rate) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = -(least + 1);
  std::uint64_t last = 0;
  for (const SyncEntry& entry : entries) {
    const SyncPoint& p = entry.point;
    if (p.before.at(clock) == 0 || p.after.at(clock) == 0 || p.before.at(beside) == 0 ||
        p.after.at(beside) == 0)
      continue;
    // The clocks of one set of readings were read one after the other, so their difference is only
    // known to lie between these two.
    least = std::max(least, static_cast<std::int64_t>(p.before.at(clock) - p.after.at(beside)));
    most = std::min(most, static_cast<std::int64_t>(p.after.at(clock) - p.before.at(beside)));
    if (least > most) {
      return fail("between {} and {} of the sync records' times {}", seconds_text(last),
                  seconds_text(p.stamp), rate);
    }
    last = p.stamp;
  }
  return {};
}

}  // namespace

Drive drive_of(std::string_view clock) {
  const auto id = clock_from_name(clock);
  if (!id) return Drive::kOther;
  switch (*id) {
    case ClockId::kMono:
    case ClockId::kBoot:
    case ClockId::kTai:
    case ClockId::kReal:
      return Drive::kAdjusted;
    case ClockId::kMonoRaw:
    case ClockId::kTsc:
    case ClockId::kLocal:
    case ClockId::kGlobal:
    case ClockId::kPerf:
      return Drive::kCounter;
    case ClockId::kUptime:
    case ClockId::kCounter:
      break;
  }
  return Drive::kOther;
}

std::vector<NotedAdjustment> noted_in(std::span<const SyncEntry> entries) {
  std::vector<NotedAdjustment> notes;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (i == 0 || entries[i].series != entries[i - 1].series)
      notes.push_back({entries[i].point.stamp, entries[i].point.adjustment});
  return notes;
}

Result<double> assumed_change(std::span<const std::vector<NotedAdjustment>> kernels,
                              std::optional<double> given) {
  double change = kSteadyPpm;
  bool all_noted = true;
  for (const std::vector<NotedAdjustment>& notes : kernels) {
    // One note tells nothing about the time after it.
    if (notes.size() < 2 || !std::ranges::all_of(notes, [](const NotedAdjustment& note) {
          return note.adjustment.has_value();
        })) {
      all_noted = false;
      continue;
    }
    const auto ppm = [](const NotedAdjustment& note) { return note.adjustment->ppm(); };
    const auto [least, most] = std::ranges::minmax_element(notes, {}, ppm);
    const double apart = ppm(*most) - ppm(*least);
    if (apart > given.value_or(kSlewedPpm)) {
      return fail(
          "between {} and {} of its times the kernel changed the rate of its clocks by {:.1f} ppm "
          "(adjtimex), and a change of at most {} ppm is assumed (--rate-change)",
          seconds_text(std::min(least->at, most->at)), seconds_text(std::max(least->at, most->at)),
          apart, given.value_or(kSlewedPpm));
    }
    change += apart;
  }
  return given.value_or(all_noted ? change : std::max(change, kSlewedPpm));
}

Result<void> check_not_set(std::span<const SyncEntry> entries, ClockId from, ClockId to) {
  const auto either = [&](ClockId clock) { return (from == clock) != (to == clock); };
  auto ok = check_distance(entries, ClockId::kBoot, ClockId::kMono, "the machine was suspended");
  if (ok && either(ClockId::kReal))
    ok = check_distance(entries, ClockId::kReal, ClockId::kMono, "its wall clock was set");
  if (ok && either(ClockId::kTai))
    ok = check_distance(entries, ClockId::kTai, ClockId::kMono, "its clock tai was set");
  return ok;
}

}  // namespace trapline::clocks
