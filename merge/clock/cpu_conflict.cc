#include "merge/clock/cpu_conflict.h"

#include <variant>

namespace trapline {
namespace {

// Returns the event without views, which would outlive their buffer.
Event without_views(const Event& event) {
  Event kept = event;
  kept.payload = Other{};
  kept.raw = {};
  return kept;
}

}  // namespace

void CpuConflicts::on(const Event& event) {
  if (event.source >= sources_.size()) return;
  std::vector<Lane>& lanes = cpus_[event.cpu];
  lanes.resize(sources_.size());
  Lane& own = lanes[event.source];
  if (std::holds_alternative<Lost>(event.payload)) {
    own = {};
    return;
  }
  stay(own, event);
  for (std::size_t other = 0; other < lanes.size(); ++other) {
    Lane& lane = lanes[other];
    if (other == event.source || !lane.last || lane.foreign || lane.thread == event.thread)
      continue;
    if (elapsed(lane.last->at, event.at) > slack(*lane.last, event))
      lane.foreign = without_views(event);
  }
}

// Takes the next event of one source on one CPU (the lane). If the event before was of the same
// thread, the thread stayed on the CPU in between; an event of another thread then is a conflict.
void CpuConflicts::stay(Lane& lane, const Event& event) {
  Found& found = found_[event.source];
  ++found.events;
  if (event.thread == lane.leaving && event.thread != lane.thread) return;
  if (lane.last && lane.thread != event.thread) ++found.unjoined;
  const bool stayed = lane.last && lane.last->thread == event.thread && lane.thread == event.thread;
  if (stayed && lane.foreign && !found.first && sources_[event.source].has_switches &&
      elapsed(lane.foreign->at, event.at) > slack(event, *lane.foreign))
    found.first = {*lane.last, without_views(event), *lane.foreign};
  lane.last = without_views(event);
  lane.foreign.reset();
  const OnCpu after = on_cpu_after(event);
  lane.thread = after.thread;
  lane.leaving = after.leaving;
}

std::optional<CpuConflicts::Conflict> CpuConflicts::first() const {
  std::optional<Conflict> earliest;
  for (const Found& found : found_) {
    if (!found.first || found.unjoined * kMostJoined > found.events) continue;
    if (!earliest || found.first->at.at < earliest->at.at) earliest = found.first;
  }
  return earliest;
}

}  // namespace trapline
