#include "merge/clock/guest_syncs.h"

#include <algorithm>

#include "merge/clock/relation.h"

namespace trapline {
namespace {

using clocks::Interval;
using clocks::Relation;

ClockReadings readings_of(const GuestSyncRecord& record, const GuestReading& reading) {
  ClockReadings readings;
  readings.values[static_cast<std::size_t>(record.clock)] = reading.clock;
  if (record.counter == GuestCounter::kTsc)
    readings.values[static_cast<std::size_t>(ClockId::kTsc)] = reading.counter;
  return readings;
}

// Returns the relation from a clock that was read to the clock of the stamps.
Result<Relation> relation_from(ClockId clock, const std::vector<clocks::SyncEntry>& entries,
                               const StampClock& stamps, Interval interval) {
  std::vector<ClockBound> brackets;
  for (const clocks::SyncEntry& entry : entries) {
    const std::uint64_t before = entry.point.before.at(clock), after = entry.point.after.at(clock);
    if (before == 0 || after == 0) continue;
    brackets.push_back(
        ClockBound::readings(before, after, entry.point.stamp, entry.point.stamp, entry.series));
  }
  if (brackets.empty()) return fail("no sync record has both clocks");
  const bool same_unit = stamps.cycles == (clock == ClockId::kTsc);
  return clocks::relate(brackets, entries, {clock, clocks::drive_of(clock_name(clock))},
                        {clock_from_name(stamps.name), stamps.drive()},
                        same_unit ? clocks::kNanoseconds : clocks::kAnyRate, stamps.rate_change_ppm,
                        interval);
}

// Return the earliest and the latest time that a relation allows; the earliest is at least 1, since
// 0 stands for no reading.
std::uint64_t earliest(const Relation& relation, std::uint64_t at) {
  const std::uint64_t time = relation.map()(at), error = relation.error_at(at);
  return time > error ? time - error : 1;
}
std::uint64_t latest(const Relation& relation, std::uint64_t at) {
  return relation.map()(at) + relation.error_at(at);
}

void widen(Interval& interval, std::uint64_t time) {
  interval.first = std::min(interval.first, time);
  interval.last = std::max(interval.last, time);
}

}  // namespace

void GuestSyncMarkers::add(std::uint64_t stamp, std::string_view text) {
  if (!text.starts_with(kGuestSyncPrefix)) return;
  const auto record = parse_guest_sync(text);
  if (!record || lines_.size() + actions_.size() >= GuestBounds::kMaxRecords) return;
  if (record->before || record->after)
    lines_.push_back({std::nullopt, *record});
  else
    actions_.emplace_back(stamp, *record);
}

std::vector<clocks::SyncEntry> GuestSyncMarkers::clocks() const {
  std::vector<clocks::SyncEntry> entries;
  std::size_t next = 0;
  // The texts of a series come after all actions of the series, in the same order.
  for (std::size_t i = 0; i + 1 < lines_.size(); ++i) {
    const GuestSyncRecord &record = lines_[i].record, &following = lines_[i + 1].record;
    std::size_t found = next;
    while (found < actions_.size() && (actions_[found].second.series != record.series ||
                                       actions_[found].second.index != record.index))
      ++found;
    if (found == actions_.size()) continue;
    next = found + 1;
    if (following.series != record.series || following.index != record.index + 1) continue;
    if (!record.before || !following.after || following.after->clock < record.before->clock)
      continue;
    entries.push_back({record.series,
                       {actions_[found].first, readings_of(record, *record.before),
                        readings_of(record, *following.after), record.adjustment}});
  }
  return entries;
}

Result<void> add_readings(GuestBounds& bounds, const std::vector<GuestSyncLine>& lines,
                          const StampClock& stamps,
                          const std::vector<clocks::SyncEntry>& brackets) {
  const bool cycles = stamps.cycles;
  std::optional<Interval> interval;
  const ClockId* other = nullptr;
  const auto id = clock_from_name(stamps.name);
  for (const GuestSyncLine& line : lines) {
    if (line.stamp || (cycles && id == ClockId::kTsc) || id == line.record.clock) continue;
    if (other != nullptr && *other != line.record.clock) continue;
    other = &line.record.clock;
    for (const auto& reading : {line.record.before, line.record.after}) {
      if (!reading) continue;
      if (!interval) interval = Interval{reading->clock, reading->clock};
      widen(*interval, reading->clock);
    }
  }
  std::optional<Relation> relation;
  if (other != nullptr) {
    auto fitted = assign(relation, relation_from(*other, brackets, stamps, *interval));
    if (!fitted) return fitted;
  }
  for (const GuestSyncLine& line : lines) {
    const GuestSyncRecord& record = line.record;
    const GuestReading before = record.before.value_or(GuestReading{});
    const GuestReading after = record.after.value_or(GuestReading{});
    if (line.stamp) {
      bounds.add(record, *line.stamp, *line.stamp, true);
    } else if (id == record.clock) {
      bounds.add(record, before.clock, after.clock, false);
    } else if (cycles && id == ClockId::kTsc) {
      if (record.counter == GuestCounter::kTsc)
        bounds.add(record, before.counter, after.counter, false);
    } else if (relation && record.clock == *other) {
      bounds.add(record, record.before ? earliest(*relation, before.clock) : 0,
                 record.after ? latest(*relation, after.clock) : 0, false);
    }
  }
  return {};
}

Result<std::vector<ClockBound>> bounds_through(ClockId clock, const std::vector<ClockBound>& bounds,
                                               const std::vector<clocks::SyncEntry>& brackets,
                                               const StampClock& stamps) {
  std::vector<ClockBound> all;
  const bool known = std::ranges::any_of(brackets, [clock](const clocks::SyncEntry& entry) {
    return entry.point.before.at(clock) != 0 && entry.point.after.at(clock) != 0;
  });
  if (bounds.empty() || !known) return all;
  Interval interval{~std::uint64_t{0}, 0};
  for (const ClockBound& bound : bounds) {
    if (bound.has_low()) widen(interval, bound.at_least);
    if (bound.has_high()) widen(interval, bound.at_most);
  }
  const auto relation = relation_from(clock, brackets, stamps, interval);
  if (!relation) return tl::unexpected(relation.error());
  for (ClockBound bound : bounds) {
    if (bound.has_low()) bound.at_least = earliest(*relation, bound.at_least);
    if (bound.has_high()) bound.at_most = latest(*relation, bound.at_most);
    all.push_back(bound);
  }
  return all;
}

std::vector<clocks::NotedAdjustment> noted_in(const std::vector<GuestSyncLine>& lines) {
  std::vector<clocks::NotedAdjustment> notes;
  for (const GuestSyncLine& line : lines) {
    if (line.record.index != 0 || !line.record.before) continue;
    notes.push_back({line.record.before->clock, line.record.adjustment});
  }
  std::ranges::stable_sort(notes, {}, &clocks::NotedAdjustment::at);
  return notes;
}

}  // namespace trapline
