#include "merge/analyze/page_servers.h"

#include <algorithm>

namespace trapline {

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
