#include "merge/clock/guest_bounds.h"

#include <algorithm>
#include <variant>

namespace trapline {

void GuestBounds::add(const GuestSyncRecord& record, std::uint64_t before, std::uint64_t after,
                      bool by_stamp) {
  if (++records_ > kMaxRecords) return;
  // A record without a clock reading comes from bare metal. If the clock was set back between the
  // readings, they give no bound.
  if (open_ && record.after && record.series == open_->series && record.index == open_->index + 1 &&
      open_before_ != 0 && open_before_ <= after) {
    const std::size_t index = actions_.size();
    by_index_.emplace(std::pair{open_->series, open_->index}, index);
    if (const auto& write = open_->write)
      by_write_.emplace(std::tuple{write->mmio, write->where, write->value}, index);
    actions_.push_back({*open_, *record.after, open_before_, after, by_stamp});
  }
  open_.reset();
  if (!record.before) return;
  open_ = record;
  open_before_ = before;
}

void GuestBounds::saw(Action& action, std::uint64_t first, std::uint64_t last) {
  if (action.first != 0) action.twice = true;
  action.first = first;
  action.last = last;
}

void GuestBounds::on_exit(ThreadId thread, std::uint64_t at) {
  vcpus_[static_cast<std::int32_t>(thread)] = {at, kNone, true};
}

void GuestBounds::on_write(ThreadId thread, bool mmio, std::uint64_t where, std::uint64_t value) {
  const auto action = by_write_.find({mmio, where, value});
  if (action == by_write_.end()) return;
  const auto vcpu = vcpus_.find(static_cast<std::int32_t>(thread));
  if (vcpu != vcpus_.end() && vcpu->second.exit != 0) vcpu->second.action = action->second;
}

void GuestBounds::on_entry(ThreadId thread, std::uint64_t at) {
  const auto vcpu = vcpus_.find(static_cast<std::int32_t>(thread));
  if (vcpu == vcpus_.end()) return;
  if (vcpu->second.exit != 0 && vcpu->second.action != kNone) {
    saw(actions_[vcpu->second.action], vcpu->second.exit, at);
    exited_series_.insert(actions_[vcpu->second.action].record.series);
    threads_.insert(thread);
  }
  vcpu->second = {.entered = true};
}

void GuestBounds::on_marker(std::uint64_t at, std::string_view text) {
  if (!text.starts_with(kGuestSyncPrefix)) return;
  const auto record = parse_guest_sync(text);
  if (!record) return;
  const auto action = by_index_.find({record->series, record->index});
  if (action == by_index_.end()) return;
  own_series_.insert(record->series);
  if (record->marker && !record->before && !record->after) saw(actions_[action->second], at, at);
}

// A vCPU gets an offset when it starts, and later the same one again. If the offset changes while
// the vCPU runs, readings of its TSC cannot be used.
void GuestBounds::on_tsc_offset(ThreadId thread, std::uint64_t offset) {
  const auto vcpu = vcpus_.find(static_cast<std::int32_t>(thread));
  const auto [known, fresh] = tsc_offsets_.emplace(thread, TscOffset{offset, false});
  if (!fresh && known->second.offset != offset && vcpu != vcpus_.end() && vcpu->second.entered)
    known->second.changed = true;
  known->second.offset = offset;
}

std::optional<std::uint64_t> GuestBounds::tsc_offset() const {
  std::optional<std::uint64_t> offset;
  for (const auto& [thread, of] : tsc_offsets_) {
    if (vm_threads_ && !vm_threads_->contains(thread)) continue;
    if (of.changed || (offset && *offset != of.offset)) return std::nullopt;
    offset = of.offset;
  }
  return offset;
}

bool GuestBounds::is_of_the_guest(const Action& action) const {
  if (!action.by_stamp) return true;
  return exited_series_.contains(action.record.series) &&
         !own_series_.contains(action.record.series);
}

std::vector<ClockBound> GuestBounds::host_tsc_bounds() {
  std::vector<ClockBound> all;
  counters_.tsc = 0;
  const auto offset = tsc_offset();
  if (!offset) return all;
  for (const Action& action : actions_) {
    if (!is_of_the_guest(action)) continue;
    const std::uint64_t counter = action.record.before->counter;
    const std::uint64_t before = counter - *offset, after = action.reading_after.counter - *offset;
    if (action.record.counter != GuestCounter::kTsc || counter == 0 || before > after) continue;
    ++counters_.tsc;
    if (action.by_stamp) {
      all.push_back(ClockBound::at(action.before, before, after));
    } else {  // the guest reads its clock before the counter
      all.push_back(ClockBound::at(action.before, ClockBound::kNoLow, before));
      all.push_back(ClockBound::at(action.after, before, after));
    }
  }
  return all;
}

// Returns whether the source's times are by the clock that the guest read, so that the distance to
// the guest's wall clock is constant.
bool GuestBounds::by_the_readings(const Action& action) {
  return action.before == action.record.before->clock &&
         action.after == action.reading_after.clock && action.record.ptp &&
         action.record.ptp->real >= action.after;
}

std::vector<ClockBound> GuestBounds::host_real_bounds() {
  std::vector<ClockBound> all;
  counters_.ptp = 0;
  for (std::size_t i = 0, end = 0; i < actions_.size(); i = end) {
    // How far the guest's wall clock is ahead of the source's clock: the same throughout a series.
    std::uint64_t least = 0, most = ~std::uint64_t{0};
    for (end = i; end < actions_.size() && actions_[end].record.series == actions_[i].record.series;
         ++end) {
      const Action& action = actions_[end];
      if (!by_the_readings(action)) continue;
      least = std::max(least, action.record.ptp->real - action.after);
      most = std::min(most, action.record.ptp->real - action.before);
    }
    for (std::size_t at = i; at < end; ++at) {
      const Action& action = actions_[at];
      const auto& ptp = action.record.ptp;
      if (!ptp) continue;
      ++counters_.ptp;
      std::uint64_t before = action.before, after = action.after;
      if (least <= most && by_the_readings(action)) {  // the wall clock was not set in between
        before = std::max(before, ptp->real - most);
        after = std::min(after, ptp->real - least);
      }
      all.push_back(ClockBound::at(before, ClockBound::kNoLow, ptp->host_real));
      all.push_back(ClockBound::at(after, ptp->host_real, ClockBound::kNoHigh));
    }
  }
  return all;
}

void GuestBounds::on_event(const Event& event) {
  const std::uint64_t at = event.at.ns();
  if (std::holds_alternative<KvmExit>(event.payload)) {
    on_exit(event.thread, at);
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    on_entry(event.thread, at);
  } else if (const auto* detail = std::get_if<KvmDetail>(&event.payload)) {
    if (detail->is_device_write())
      on_write(event.thread, detail->kind == DetailKind::kMmio, detail->value, detail->data);
  } else if (const auto* tsc = std::get_if<KvmTscOffset>(&event.payload)) {
    on_tsc_offset(event.thread, tsc->next);
  } else if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    on_marker(at, marker->text);
  } else if (std::holds_alternative<Lost>(event.payload)) {
    vcpus_.clear();
  }
}

std::vector<ClockBound> GuestBounds::bounds() {
  std::vector<ClockBound> all;
  counters_.exits = counters_.markers = counters_.readings = 0;
  for (const Action& action : actions_) {
    const GuestReading &from = *action.record.before, &to = action.reading_after;
    if (action.first != 0 && !action.twice) {
      ++(action.record.write ? counters_.exits : counters_.markers);
      all.push_back(ClockBound::at(action.before, ClockBound::kNoLow, action.first));
      all.push_back(ClockBound::at(action.after, action.last, ClockBound::kNoHigh));
    }
    // The plugin stamped the no-op between two readings of the recording's own clock.
    const bool same_clock =
        target_ && action.record.clock == *target_ && from.clock != 0 && from.clock <= to.clock;
    if (action.by_stamp && same_clock && own_series_.contains(action.record.series)) {
      ++counters_.readings;
      all.push_back(ClockBound::at(action.before, from.clock, to.clock));
    }
  }
  if (target_ == ClockId::kTsc) {
    const auto by_offset = host_tsc_bounds();
    all.insert(all.end(), by_offset.begin(), by_offset.end());
  }
  std::ranges::stable_sort(all, {}, &ClockBound::source);
  // Merges the bounds of one moment into one.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept > 0 && all[kept - 1].source() == all[i].source()) {
      all[kept - 1].at_least = std::max(all[kept - 1].at_least, all[i].at_least);
      all[kept - 1].at_most = std::min(all[kept - 1].at_most, all[i].at_most);
    } else {
      all[kept++] = all[i];
    }
  }
  all.resize(kept);
  return all;
}

}  // namespace trapline
