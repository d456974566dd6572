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
  if (waker->serves) {
    sleeper->server = event.thread;
    sleeper->served = event.at;
  } else if (waker->server == ThreadId{} || waker->served < sleeper->slept) {
    return;
  }
  served_by_ = waker->serves ? event.thread : waker->server;
}

void PageServers::on(const Event& event) {
  served_by_.reset();
  if (const auto* ioctl = std::get_if<IoctlEnter>(&event.payload)) {
    const bool serves = std::ranges::find(kAnswers, ioctl->command) != kAnswers.end();
    Thread* thread =
        serves ? threads_.get(event.thread, kMostThreads) : threads_.find(event.thread);
    if (thread != nullptr) thread->serves = serves;
  } else if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    if (sched->runnable) return;
    if (Thread* thread = threads_.get(sched->prev, kMostThreads)) {
      thread->asleep = true;
      thread->slept = event.at;
    }
  } else if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    on_wakeup(event, *wakeup);
  } else if (std::holds_alternative<Lost>(event.payload)) {
    for (auto& entry : threads_.entries()) entry.state = {};
  }
}

}  // namespace trapline
