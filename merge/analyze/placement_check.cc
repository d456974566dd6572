#include "merge/analyze/placement_check.h"

#include <utility>

namespace trapline {

// Counts the events inside a guest's run that are further from its ends than their error bound. A
// run that begins after a loss may have begun earlier than known, so it proves nothing.
void PlacementCheck::on_run(const GuestRun& run) {
  std::vector<Misplaced>* doubtful = doubtful_.find(run.thread);
  if (doubtful == nullptr || doubtful->empty()) return;
  for (Misplaced& event : std::exchange(*doubtful, {})) {
    if (event.entry != run.begin || elapsed(event.at, run.end) <= *errors_[event.source]) continue;
    ++impossible_;
    event.exit = run.end;
    if (!first_) first_ = event;
  }
}

void PlacementCheck::on(const Event& event, const ExitTracker& exits) {
  if (const GuestRun* run = exits.guest_run()) on_run(*run);
  const bool is_checked = std::holds_alternative<Marker>(event.payload) &&
                          event.source < errors_.size() && errors_[event.source];
  const auto vcpu = is_checked ? exits.state(event.thread) : std::nullopt;
  if (!vcpu) return;
  ++placed_;
  if (vcpu->where != VcpuState::Where::kGuest ||
      elapsed(vcpu->begin, event.at) <= *errors_[event.source])
    return;
  std::vector<Misplaced>* doubtful = doubtful_.get(event.thread, kMostThreads);
  if (doubtful == nullptr) return;
  if (!doubtful->empty() && doubtful->front().entry != vcpu->begin) doubtful->clear();
  if (doubtful->size() < kMostDoubtful)
    doubtful->push_back({event.source, event.thread, event.at, vcpu->begin, {}});
}

}  // namespace trapline
