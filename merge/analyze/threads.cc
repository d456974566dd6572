#include "merge/analyze/threads.h"

#include <algorithm>

namespace trapline {
namespace {

RunState state_after(const SchedSwitch& sched) {
  if (sched.runnable) return RunState::kPreempted;
  switch (sched.left) {
    case SchedSwitch::Left::kStopped:
      return RunState::kStopped;
    case SchedSwitch::Left::kDead:
      return RunState::kEnded;
    case SchedSwitch::Left::kOther:
      break;
  }
  return RunState::kAsleep;
}

}  // namespace

std::span<const ThreadChange> Threads::changes_of(const Event& event) {
  const bool keeps = keeps_facts_ && !is_guest(event.machine);
  ThreadChange& change = changes_[0];
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    const bool in_loss = event.at < loss_end_;
    change = {.kind = ThreadChange::Kind::kLeaves,
              .now = state_after(*sched),
              .fair = sched->fair,
              .in_loss = in_loss,
              .cpu = event.cpu,
              .thread = sched->prev,
              .other = sched->next,
              .at = event.at};
    changes_[1] = {.kind = ThreadChange::Kind::kRuns,
                   .now = RunState::kRuns,
                   .in_loss = in_loss,
                   .cpu = event.cpu,
                   .thread = sched->next,
                   .other = sched->prev,
                   .at = event.at,
                   .name = sched->next_comm};
    if (keeps) {
      note_switch(changes_[0]);
      note_switch(changes_[1]);
    }
    return changes_;
  }
  if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    change = {.kind = ThreadChange::Kind::kWoken,
              .waking = wakeup->waking,
              .context = wakeup->context,
              .level = wakeup->level,
              .cpu = event.cpu,
              .to_cpu = wakeup->cpu,
              .thread = wakeup->thread,
              .other = event.thread,
              .at = event.at};
    if (keeps) note_wakeup(change);
    return std::span(changes_).first(1);
  }
  if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    if (host->step != HostStep::kMigrate) return {};
    change = {.kind = ThreadChange::Kind::kMoves,
              .cpu = event.cpu,
              .to_cpu = host->number,
              .thread = ThreadId{host->thread},
              .other = event.thread,
              .at = event.at};
    return std::span(changes_).first(1);
  }
  if (is_guest(event.machine)) return {};
  loss_end_ = std::max(loss_end_, std::get_if<Lost>(&event.payload)->to);
  forget();
  return {};
}

void Threads::note_switch(ThreadChange& change) {
  if (change.thread == ThreadId{}) return;  // every CPU's idle thread
  ThreadFacts* facts = facts_.get(change.thread, kMostThreads);
  if (facts == nullptr) return;
  if (facts->losses != losses_) *facts = {.life = facts->life, .losses = losses_};
  change.was = facts->state;
  change.since = facts->since;
  if (facts->state == RunState::kEnded) ++facts->life;
  facts->state = change.now;
  facts->since = change.at;
  if (!is_asleep(change.now)) return;
  facts->slept = change.at;
  facts->woken = {};
}

void Threads::note_wakeup(ThreadChange& change) {
  ThreadFacts* facts = facts_.find(change.thread);
  if (facts == nullptr || facts->losses != losses_) return;
  change.was = facts->state;
  change.since = facts->since;
  if (!is_asleep(facts->state)) return;
  facts->state = RunState::kWoken;
  facts->since = facts->woken = change.at;
}

}  // namespace trapline
