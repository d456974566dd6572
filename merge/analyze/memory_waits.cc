#include "merge/analyze/memory_waits.h"

#include <algorithm>

namespace trapline {

void MemoryWorks::on_entry(Timestamp at) {
  if (open_ && open_->work == MemoryWork::kDirtyLog && ended_.size() < kMost)
    ended_.push_back({open_->work, open_->begin, at});
  open_.reset();
}

void MemoryWorks::on(HostStep step, Timestamp at) {
  if (step == HostStep::kDirtyRingFull) {
    inner_ = 0;
    open_ = Run{MemoryWork::kDirtyLog, at, at};
    return;
  }
  const bool reclaims = step == HostStep::kReclaimBegin || step == HostStep::kReclaimEnd;
  const MemoryWork work = reclaims ? MemoryWork::kReclaim : MemoryWork::kCompaction;
  if (step == HostStep::kReclaimBegin || step == HostStep::kCompactionBegin) {
    inner_ = open_ ? inner_ + 1 : 0;
    if (!open_) open_ = Run{work, at, at};
    return;
  }
  // Ignores an end without a beginning while the thread waits for its dirty ring.
  if (open_ && open_->work == MemoryWork::kDirtyLog && inner_ == 0) return;
  if (open_ && inner_ != 0) {
    --inner_;
    return;
  }
  if (open_ && open_->work == work && ended_.size() < kMost)
    ended_.push_back({work, open_->begin, at});
  open_.reset();
}

void MemoryUnmaps::end(ThreadId thread, Timestamp at) {
  const auto found = std::ranges::find(open_, thread, &Unmap::thread);
  if (found == open_.end()) return;
  found->end = at;
  last_ = *found;
  open_.erase(found);
}

void MemoryUnmaps::on(const Event& event, ThreadChanges changes) {
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
  if (are_loss(changes)) return forget();
  for (const ThreadChange& change : changes)
    if (change.sleeps()) end(change.thread, change.at);
  if (const auto* ioctl = std::get_if<IoctlEnter>(&event.payload)) {
    end(event.thread, event.at);
    // Page faults also repeat while their memory slot is being changed, whatever was unmapped.
    if (std::ranges::find(kSetMemory, ioctl->command) != kSetMemory.end()) forget();
  } else if (is_any_of<KvmEntry, KvmExit>(event.payload)) {
    end(event.thread, event.at);
  }
}

bool MemoryUnmaps::any(Timestamp begin, Timestamp end) const {
  const auto is_there = [&](const Unmap& unmap) {
    return unmap.begin <= end && unmap.lasts_at(std::max(begin, unmap.begin));
  };
  return (last_ && last_->end >= begin && is_there(*last_)) || std::ranges::any_of(open_, is_there);
}

void PageServers::on_wakeup(const ThreadChange& change) {
  if (Thread* sleeper = threads_.find(change.thread)) sleeper->server.reset();
  const bool by_thread = change.context == WakeContext::kThread;
  const Thread* waker = by_thread ? threads_.find(change.other) : nullptr;
  if (waker == nullptr) return;
  if (waker->serves || waker->collapses) {
    const Timestamp begin = std::max(change.since, waker->collapses.value_or(change.since));
    served_by_ = Served{
        change.other,    !waker->serves, begin, change.at, waker->serves.value_or(change.since),
        EventRef(change)};
    if (Thread* sleeper = threads_.get(change.thread, kMostThreads)) sleeper->server = served_by_;
  } else if (waker->server && waker->server->end >= change.since) {
    served_by_ = waker->server;
    served_by_->since = std::min(served_by_->since, served_by_->begin);
    served_by_->begin = std::max(change.since, served_by_->begin);
  }
}

void PageServers::on_host(const Event& event, HostStep step) {
  if (step == HostStep::kFutex || step == HostStep::kUnmap) {
    if (Thread* caller = threads_.find(event.thread)) caller->serves.reset();
  }
  if (step != HostStep::kUnmap && step != HostStep::kCollapse && step != HostStep::kCollapseEnd)
    return;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  if (step == HostStep::kUnmap) thread->unmaps = event.at;
  thread->collapses = step == HostStep::kCollapse ? thread->unmaps : std::nullopt;
  if (step == HostStep::kCollapseEnd) thread->unmaps.reset();
}

void PageServers::on(const Event& event, ThreadChanges changes) {
  served_by_.reset();
  if (are_loss(changes)) return threads_.clear();
  for (const ThreadChange& change : changes) {
    if (change.ends_sleep()) on_wakeup(change);
    Thread* thread = change.sleeps() ? threads_.find(change.thread) : nullptr;
    if (thread == nullptr) continue;
    thread->serves.reset();  // a serving thread wakes the faulting one before it sleeps
    thread->unmaps = thread->collapses = std::nullopt;
  }
  if (const auto* ioctl = std::get_if<IoctlEnter>(&event.payload)) {
    const bool serves = std::ranges::find(kAnswers, ioctl->command) != kAnswers.end();
    Thread* thread =
        serves ? threads_.get(event.thread, kMostThreads) : threads_.find(event.thread);
    if (thread != nullptr) {
      thread->serves = serves ? std::optional(event.at) : std::nullopt;
      thread->unmaps = thread->collapses = std::nullopt;
    }
  } else if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    on_host(event, host->step);
  }
}

}  // namespace trapline
