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

void ThreadActivity::add(ThreadId id, Timestamp at, State state, NameId event) {
  if (id == ThreadId{}) return;  // every CPU's idle thread
  Thread* thread = threads_.get(id, kMostThreads);
  if (thread == nullptr) return;
  thread->state = state;
  const Change change{at, state, event};
  if (thread->changes.size() < kMost) {
    thread->changes.push_back(change);
  } else {
    thread->changes[thread->added % kMost] = change;
  }
  ++thread->added;
}

void ThreadActivity::on_hole(Timestamp at) {
  for (auto& entry : threads_.entries()) {
    if (entry.state.state != State::kUnknown) add(entry.thread, at, State::kUnknown);
  }
}

void ThreadActivity::on(const Event& event, NameId vmm_event, const RecordedSwitches& switches) {
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    const auto known = [&](ThreadId thread, State state) {
      add(thread, event.at, switches.has_all_of(thread) ? state : State::kUnknown);
    };
    if (switches.skipped()) add(*switches.skipped(), event.at, State::kUnknown);
    known(sched->prev, sched->runnable ? State::kReady : State::kSlept);
    known(sched->next, State::kRan);
  } else if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    const Thread* thread = threads_.find(wakeup->thread);
    if (thread != nullptr && thread->state == State::kSlept) {
      add(wakeup->thread, event.at, State::kReady);
    }
  } else if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    on_hole(lost->from);
  } else if (vmm_event != kNoName) {
    // Whoever writes an event runs.
    add(event.thread, event.at, State::kRan, vmm_event);
  }
}

Activity ThreadActivity::between(ThreadId id, Timestamp begin, Timestamp end) const {
  Activity activity;
  const Thread* thread = threads_.find(id);
  State state = State::kUnknown;
  Timestamp at = begin;
  const auto pass = [&](Timestamp until) {
    if (until <= at) return;
    const std::uint64_t ns = elapsed(at, until);
    (state == State::kRan     ? activity.ran_ns
     : state == State::kReady ? activity.ready_ns
     : state == State::kSlept ? activity.slept_ns
                              : activity.unknown_ns) += ns;
    at = until;
  };
  const std::uint64_t added = thread == nullptr ? 0 : thread->added;
  for (std::uint64_t i = added - std::min<std::uint64_t>(added, kMost); i < added; ++i) {
    const Change& change = thread->changes[i % kMost];
    if (change.at > end) break;
    pass(change.at);
    state = change.state;
    if (change.event != kNoName && change.at >= begin) {
      activity.merge({0, 0, 0, 0, {{change.event, 1}}});
    }
  }
  pass(end);
  return activity;
}

}  // namespace trapline
