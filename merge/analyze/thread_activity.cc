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
  if (id == ThreadId{}) return;  // the idle thread of all CPUs
  Thread* thread = threads_.get(id, kMostThreads);
  if (thread == nullptr) return;
  thread->state = state;
  const Step step{at, state, event};
  if (thread->steps.size() < kMost) {
    thread->steps.push_back(step);
  } else {
    thread->steps[thread->added % kMost] = step;
  }
  ++thread->added;
}

void ThreadActivity::on(const ThreadChange& change, const RecordedSwitches& switches) {
  if (change.loses()) {
    for (auto& entry : threads_.entries())
      if (entry.state.state != State::kUnknown) add(entry.thread, change.since, State::kUnknown);
    return;
  }
  State state = change.runs() ? State::kRan : change.sleeps() ? State::kSlept : State::kReady;
  if (change.leaves() || change.runs()) {
    if (change.leaves() && switches.skipped()) add(*switches.skipped(), change.at, State::kUnknown);
    if (!switches.has_all_of(change.thread)) state = State::kUnknown;
    return add(change.thread, change.at, state);
  }
  const Thread* thread = change.wakes() ? threads_.find(change.thread) : nullptr;
  if (thread != nullptr && thread->state == State::kSlept) add(change.thread, change.at, state);
}

void ThreadActivity::on(const Event& event, ThreadChanges changes, NameId vmm_event,
                        const RecordedSwitches& switches) {
  for (const ThreadChange& change : changes) on(change, switches);
  // The thread that writes an event runs.
  if (vmm_event != kNoName) add(event.thread, event.at, State::kRan, vmm_event);
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
    const Step& step = thread->steps[i % kMost];
    if (step.at > end) break;
    pass(step.at);
    state = step.state;
    if (step.event != kNoName && step.at >= begin) activity.merge({0, 0, 0, 0, {{step.event, 1}}});
  }
  pass(end);
  return activity;
}

}  // namespace trapline
