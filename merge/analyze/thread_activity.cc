#include "merge/analyze/thread_activity.h"

#include <algorithm>

namespace trapline {

void Activity::merge(const Activity& other) {
  ran_ns += other.ran_ns;
  ready_ns += other.ready_ns;
  slept_ns += other.slept_ns;
  unknown_ns += other.unknown_ns;
  for (const Count& count : other.events) {
    const auto same = std::ranges::find(events, count.name, &Count::name);
    if (same == events.end()) {
      events.push_back(count);
    } else {
      same->count += count.count;
    }
  }
}

void ThreadActivity::add(ThreadId id, Timestamp at, RunState state, NameId event) {
  if (id == ThreadId{}) return;  // the idle thread of all CPUs
  std::deque<Step>* steps = threads_.get(id, kMostThreads);
  if (steps == nullptr) return;
  if (steps->size() == kMost) steps->pop_front();
  steps->push_back({at, state, event});
}

void ThreadActivity::on(const ThreadChange& change, const RecordedSwitches& switches) {
  if (change.loses()) {
    for (auto& entry : threads_.entries())
      if (entry.state.back().state != RunState::kUnknown)
        add(entry.thread, change.since, RunState::kUnknown);
    return;
  }
  if (change.leaves() || change.runs()) {
    if (change.leaves() && switches.skipped())
      add(*switches.skipped(), change.at, RunState::kUnknown);
    const bool known = switches.has_all_of(change.thread);
    return add(change.thread, change.at, known ? change.now : RunState::kUnknown);
  }
  const std::deque<Step>* steps = change.wakes() ? threads_.find(change.thread) : nullptr;
  if (steps != nullptr && is_asleep(steps->back().state))
    add(change.thread, change.at, RunState::kWoken);
}

void ThreadActivity::on(const Event& event, ThreadChanges changes, NameId vmm_event,
                        const RecordedSwitches& switches) {
  for (const ThreadChange& change : changes) on(change, switches);
  // The thread that writes an event runs.
  if (vmm_event != kNoName) add(event.thread, event.at, RunState::kRuns, vmm_event);
}

Activity ThreadActivity::between(ThreadId id, Timestamp begin, Timestamp end) const {
  Activity activity;
  RunState state = RunState::kUnknown;
  Timestamp at = begin;
  const auto pass = [&](Timestamp until) {
    if (until <= at) return;
    const std::uint64_t ns = elapsed(at, until);
    (state == RunState::kRuns      ? activity.ran_ns
     : state == RunState::kUnknown ? activity.unknown_ns
     : is_asleep(state)            ? activity.slept_ns
                                   : activity.ready_ns) += ns;
    at = until;
  };
  static const std::deque<Step> kNone;
  const std::deque<Step>* steps = threads_.find(id);
  for (const Step& step : steps == nullptr ? kNone : *steps) {
    if (step.at > end) break;
    pass(step.at);
    state = step.state;
    if (step.event != kNoName && step.at >= begin) activity.merge({0, 0, 0, 0, {{step.event, 1}}});
  }
  pass(end);
  return activity;
}

}  // namespace trapline
