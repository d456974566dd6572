#include "merge/analyze/memory_unmaps.h"

#include <algorithm>

namespace trapline {

void MemoryUnmaps::end(ThreadId thread, Timestamp at) {
  const auto found = std::ranges::find(open_, thread, &Unmap::thread);
  if (found == open_.end()) return;
  found->end = at;
  last_ = *found;
  open_.erase(found);
}

void MemoryUnmaps::on(const Event& event) {
  if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    if (host->step == HostStep::kUnmap) {
      end(event.thread, event.at);
      if (open_.size() < kMostOpen) open_.push_back({event.thread, event.at, event.at});
    } else if (host->step == HostStep::kCollapseEnd) {
      end(event.thread, event.at);
    }
    return;
  }
  if (open_.empty()) return;
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    if (!sched->runnable) end(sched->prev, event.at);
  } else if (const auto* ioctl = std::get_if<IoctlEnter>(&event.payload)) {
    end(event.thread, event.at);
    // Page faults in a memory slot that is changed are in vain, too.
    if (std::ranges::find(kSetMemory, ioctl->command) != kSetMemory.end()) forget();
  } else if (is_any_of<KvmEntry, KvmExit>(event.payload)) {
    end(event.thread, event.at);
  } else if (std::holds_alternative<Lost>(event.payload)) {
    forget();
  }
}

bool MemoryUnmaps::any(Timestamp begin, Timestamp end) const {
  return (last_ && last_->begin <= end && last_->end >= begin) ||
         std::ranges::any_of(open_, [&](const Unmap& unmap) { return unmap.begin <= end; });
}

}  // namespace trapline
