#include "merge/analyze/placement_check.h"

#include <algorithm>
#include <variant>

namespace trapline {

void PlacementCheck::on(const Event& event) {
  if (std::holds_alternative<Marker>(event.payload)) return on_marker(event);
  if (std::holds_alternative<Lost>(event.payload)) {
    for (auto& entry : threads_.entries()) entry.state.in_guest = false;
    return;
  }
  const bool is_exit = std::holds_alternative<KvmExit>(event.payload);
  if (!is_exit && !std::holds_alternative<KvmEntry>(event.payload)) return;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  if (is_exit) return on_exit(*thread, event.at);
  thread->in_guest = true;
  thread->entry = event.at;
  thread->doubtful.clear();
}

void PlacementCheck::on_marker(const Event& event) {
  if (event.source >= errors_.size() || !errors_[event.source]) return;
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  ++placed_;
  if (!thread->in_guest || thread->doubtful.size() >= kMostDoubtful) return;
  if (elapsed(thread->entry, event.at) <= *errors_[event.source]) return;
  thread->doubtful.push_back({event.source, event.thread, event.at, thread->entry, {}});
}

void PlacementCheck::on_exit(Thread& thread, Timestamp at) {
  if (thread.in_guest) {
    for (Misplaced& event : thread.doubtful) {
      if (elapsed(event.at, at) <= *errors_[event.source]) continue;
      ++impossible_;
      event.exit = at;
      if (!first_) first_ = event;
    }
  }
  thread.in_guest = false;
  thread.doubtful.clear();
}

}  // namespace trapline
