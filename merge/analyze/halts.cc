#include "merge/analyze/halts.h"

#include <algorithm>
#include <utility>

namespace trapline {

void HaltReplay::add(const Halt& halt) {
  const std::uint64_t polled = std::min(interval_, halt.free_ns);
  const bool wins = halt.at_once || (interval_ != 0 && halt.wake_ns <= polled);
  const std::uint64_t late = wins ? 0 : halt.late_ns;
  row_.polling_ns += std::min(halt.wake_ns, polled);
  row_.late_ns += late;
  ++(wins ? row_.won : row_.lost);
  if (!wins && !halt.slept) ++would_sleep_;
  adjust(halt.wake_ns + late);
}

void HaltReplay::adjust(std::uint64_t halted_ns) {
  const std::uint64_t max = row_.halt_poll_ns;
  if (max == 0 || halted_ns <= interval_) return;
  if (interval_ != 0 && halted_ns > max) {
    interval_ = shrink_ == 0 ? 0 : interval_ / shrink_;
    if (interval_ < kGrowStart) interval_ = 0;
  } else if (interval_ < max && halted_ns < max) {
    interval_ = std::min(std::max(interval_ * kGrow, kGrowStart), max);
  }
}

HaltReplays::HaltReplays() {
  for (const std::uint64_t shrink : {std::uint64_t{0}, kHalved})
    for (const std::uint64_t setting : kSettings) replays_.emplace_back(setting, shrink);
}

void HaltReplays::add(const Halt& halt) {
  ++halts_;
  if (halt.slept) late_.add(halt.late_ns);
  for (HaltReplay& replay : replays_) replay.add(halt);
}

// Counts how an interval shrank. KVM also sets a halved interval to 0 if it is below grow_start, so
// such a change does not show how intervals shrink.
void HaltReplays::on_change(std::uint64_t before, std::uint64_t now) {
  if (now >= before) return;
  if (now != 0) ++halved_;
  if (now == 0 && before / kHalved >= HaltReplay::kGrowStart) ++zeroed_;
}

HaltReplays::Rows HaltReplays::rows(bool halves) const {
  Rows rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const HaltReplay& replay = replays_[halves ? i + rows.size() : i];
    rows[i] = replay.row();
    rows[i].late_ns += replay.would_sleep() * late_.percentile(500).value_or(0);
  }
  return rows;
}

void HaltTracker::forget(Thread& thread) {
  thread.last_woken.reset();
  thread.first_slept.reset();
  thread.taken.reset();
}

// Adds the poll of a halt that lasted `ns` and polled for at most `most`, if that is known: KVM
// polls for the vCPU's interval, or until another thread wants the CPU.
void HaltTracker::add_poll(Thread& thread, std::optional<std::uint64_t> most, std::uint64_t ns) {
  if (const auto interval = thread.interval_before ? thread.interval_before : thread.interval) {
    thread.polling_ns += std::min(*interval, most.value_or(ns));
  } else if (most) {
    thread.polling_at_most_ns += *most;
    ++thread.halts_bounded;
  } else {
    ++thread.halts_unknown;
  }
}

// Takes a change of the vCPU's poll interval. The first change also tells the interval up to then:
// if it was 0, KVM has not polled so far.
void HaltTracker::on_interval(Thread& thread, const KvmHaltPoll& poll) {
  if (!thread.interval && poll.before == 0)
    thread.polling_at_most_ns = thread.halts_bounded = thread.halts_unknown = 0;
  thread.interval_before = poll.before;
  thread.interval = poll.now;
  thread.replays.on_change(poll.before, poll.now);
}

// Takes the end of a halt. kvm_halt_poll_ns comes before kvm_vcpu_wakeup and has the interval for
// the next halt.
void HaltTracker::on_wakeup(Thread& thread, const Event& event, const KvmVcpuWakeup& wakeup) {
  if (!wakeup.valid) ++thread.invalid;
  (wakeup.waited ? thread.slept : thread.polls_won).add(wakeup.ns);
  const Timestamp begin(event.at.ns() - std::min(wakeup.ns, event.at.ns()));
  std::optional<std::uint64_t> most;
  if (!wakeup.waited) {
    most = wakeup.ns;
  } else if (thread.first_slept && *thread.first_slept >= begin) {
    most = std::min(elapsed(begin, *thread.first_slept), wakeup.ns);
  }
  add_poll(thread, most, wakeup.ns);
  if (!wakeup.waited) {
    const auto interval = thread.interval_before ? thread.interval_before : thread.interval;
    thread.replays.add({wakeup.ns, 0, false, interval == std::uint64_t{0}});
  } else if (thread.last_woken && *thread.last_woken >= begin) {
    const std::uint64_t wake = std::min(elapsed(begin, *thread.last_woken), wakeup.ns);
    Halt halt{wake, wakeup.ns - wake, true, false};
    if (thread.taken && *thread.taken >= begin) halt.free_ns = elapsed(begin, *thread.taken);
    thread.replays.add(halt);
  } else {
    ++thread.wakes_unknown;
  }
  forget(thread);
  thread.interval_before.reset();
}

// Takes that a thread other than the idle one runs on the CPU.
void HaltTracker::note_runner(std::uint32_t cpu, ThreadId runner, Timestamp at) {
  if (cpu >= sleepers_.size()) return;
  const ThreadId sleeper = std::exchange(sleepers_[cpu], ThreadId{});
  Thread* thread = sleeper == ThreadId{} || sleeper == runner ? nullptr : threads_.find(sleeper);
  if (thread != nullptr && thread->asleep_on == cpu && !thread->taken) thread->taken = at;
}

void HaltTracker::on(const ThreadChange& change) {
  if (change.loses()) {
    threads_.lose([](Thread& thread) {
      forget(thread);
      thread.asleep_on.reset();
      thread.interval.reset();
      thread.interval_before.reset();
    });
    sleepers_.clear();
  }
  if (change.runs() && change.thread != ThreadId{})
    note_runner(change.cpu, change.thread, change.at);
  const bool resumes = change.runs() && change.was == RunState::kWoken;
  if (!resumes && !change.sleeps() && !change.ends_sleep()) return;
  Thread* thread = threads_.find(change.thread);
  if (thread == nullptr) return;
  thread->asleep_on = change.sleeps() ? std::optional(change.cpu) : std::nullopt;
  if (thread->asleep_on && change.cpu < kMostCpus) {
    if (change.cpu >= sleepers_.size()) sleepers_.resize(change.cpu + 1);
    sleepers_[change.cpu] = change.thread;
  }
  if (resumes) {
    thread->wake_to_run.add(elapsed(change.since, change.at));
  } else if (change.ends_sleep()) {
    thread->last_woken = change.at;
  } else if (!thread->first_slept) {
    thread->first_slept = change.at;
  }
}

void HaltTracker::on(const Event& event, ThreadChanges changes, const ExitSpan* ended) {
  for (const ThreadChange& change : changes) on(change);
  if (ended != nullptr && ended->halt) {
    if (Thread* thread = threads_.get(ended->thread, kMostThreads)) ++thread->halt_exits;
  }
  const auto* poll = std::get_if<KvmHaltPoll>(&event.payload);
  const auto* wakeup = std::get_if<KvmVcpuWakeup>(&event.payload);
  const bool exits = std::holds_alternative<KvmExit>(event.payload);
  if (poll != nullptr || wakeup != nullptr || exits) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread == nullptr) return;
    thread->is_vcpu |= poll == nullptr;  // a vCPU that never halts is reported too
    if (poll != nullptr) return on_interval(*thread, *poll);
    return exits ? forget(*thread) : on_wakeup(*thread, event, *wakeup);
  }
}

}  // namespace trapline
