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
  if (open_ && open_->work == MemoryWork::kDirtyLog && inner_ == 0) return;  // of no beginning
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

void PageServers::on_wakeup(const Event& event, const SchedWakeup& wakeup) {
  Thread* sleeper = threads_.find(wakeup.thread);
  if (sleeper == nullptr || !sleeper->asleep) return;
  sleeper->asleep = false;
  sleeper->server = {};
  if (wakeup.context != SchedWakeup::Context::kThread) return;
  const Thread* waker = threads_.find(event.thread);
  if (waker == nullptr) return;
  const bool serves = waker->serves || waker->collapses;
  if (serves) {
    sleeper->server = {event.thread, waker->collapses};
    sleeper->served = event.at;
  } else if (waker->server.by == ThreadId{} || waker->served < sleeper->slept) {
    return;
  }
  served_by_ = serves ? sleeper->server : waker->server;
}

void PageServers::on_host(const Event& event, HostStep step) {
  if (step != HostStep::kUnmap && step != HostStep::kCollapse && step != HostStep::kCollapseEnd)
    return;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  if (step == HostStep::kUnmap) thread->unmaps = event.at;
  thread->collapses = step == HostStep::kCollapse ? thread->unmaps : std::nullopt;
  if (step == HostStep::kCollapseEnd) thread->unmaps.reset();
}

void PageServers::on(const Event& event) {
  served_by_.reset();
  if (const auto* ioctl = std::get_if<IoctlEnter>(&event.payload)) {
    const bool serves = std::ranges::find(kAnswers, ioctl->command) != kAnswers.end();
    Thread* thread =
        serves ? threads_.get(event.thread, kMostThreads) : threads_.find(event.thread);
    if (thread != nullptr) {
      thread->serves = serves;
      thread->unmaps = thread->collapses = std::nullopt;
    }
  } else if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    on_host(event, host->step);
  } else if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    if (sched->runnable) return;
    if (Thread* thread = threads_.get(sched->prev, kMostThreads)) {
      thread->asleep = true;
      thread->slept = event.at;
      thread->unmaps = thread->collapses = std::nullopt;
    }
  } else if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    on_wakeup(event, *wakeup);
  } else if (std::holds_alternative<Lost>(event.payload)) {
    threads_.clear();
  }
}

}  // namespace trapline
