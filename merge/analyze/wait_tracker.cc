#include "merge/analyze/wait_tracker.h"

#include <algorithm>

#include "merge/analyze/pipeline.h"

namespace trapline {

void WaitTracker::charge(Thread& thread, Part part, const ProvenCulprit& culprit, Timestamp end,
                         ThreadId root) {
  if (end <= thread.since) return;
  if (held_ >= kMostHeld) make_room();
  if (thread.shares.size() < kMostShares) {
    thread.shares.push_back({part, culprit, thread.since, end, root});
    ++held_;
  } else {
    drop(thread, thread.since, end);
  }
  thread.since = end;
}

// Divides the wait among the threads that ran on `cpu`. Time in which the thread was not allowed to
// run counts as the CPU quota's if the quota throttled the thread's cgroup for that long.
void WaitTracker::divide(ThreadId id, Thread& thread, std::uint32_t cpu, Timestamp end) {
  if (held_ >= kMostHeld) make_room();
  if (thread.shares.size() >= kMostShares) return drop(thread, thread.since, end);
  const std::size_t before = thread.shares.size();
  runners_.divide(cpu, {thread.since, end, thread.queued, thread.woken}, thread.shares);
  held_ += thread.shares.size() - before;
  const auto pieces = std::span(thread.shares).subspan(before);
  std::uint64_t not_allowed = 0;
  for (const WaitShare& piece : pieces)
    not_allowed += piece.culprit->kind == CulpritKind::kNotAllowed ? piece.length() : 0;
  if (not_allowed == 0 || !thread.fair || !quotas_ || !quotas_->take(id, not_allowed)) return;
  for (WaitShare& piece : pieces)
    if (piece.culprit->kind == CulpritKind::kNotAllowed)
      piece.culprit = piece.culprit.as(CulpritKind::kQuota);
}

void WaitTracker::drop(Thread& thread, Timestamp from, Timestamp until) {
  const bool first = thread.dropped_until == Timestamp();
  thread.dropped_from = first ? from : std::min(thread.dropped_from, from);
  thread.dropped_until = std::max(thread.dropped_until, until);
}

void WaitTracker::clear(Thread& thread) {
  constexpr std::size_t kKept = 256;  // capacity that a thread keeps
  held_ -= thread.shares.size();
  thread.shares.clear();
  if (thread.shares.capacity() > kKept) thread.shares.shrink_to_fit();
  thread.first = 0;
}

// Drops all threads' shares: most are of exits that nobody asks for any more.
void WaitTracker::make_room() {
  for (auto& entry : threads_.entries()) {
    Thread& thread = entry.state;
    if (thread.shares.empty()) continue;
    drop(thread, thread.shares.front().begin, thread.shares.back().end);
    clear(thread);
  }
}

void WaitTracker::leave(Thread& thread, const ThreadChange& change) {
  if (thread.shares.size() >= kMostShares) {  // of one long exit, or of exits that nobody asked for
    drop(thread, thread.shares.front().begin, change.at);
    clear(thread);
  }
  thread.since = thread.queued = change.at;
  thread.first = thread.shares.size();
  thread.cpu = change.cpu;
  thread.queue_known = true;
  thread.woken = false;
  thread.without_end = {};
  thread.fair = change.fair;
  thread.state = change.in_loss    ? Thread::State::kRunning
                 : change.sleeps() ? Thread::State::kAsleep
                                   : Thread::State::kWaiting;
}

// Makes the culprit unknown if a handler woke the thread and no end of such a handler was ever
// recorded: the handler may have ended long before the wake-up.
void WaitTracker::doubt_handler(Thread& thread) const {
  if (cause_.ends(thread.without_end)) return;
  for (std::size_t i = thread.first; i < thread.shares.size(); ++i) {
    WaitShare& share = thread.shares[i];
    if (share.part == Part::kBlocked) share.culprit = ProvenCulprit(Missing::kContext);
  }
}

// Returns the id for the thread under its name at that time (CulpritNames). A vCPU keeps its own
// id: reports name it by its VM and number.
ThreadId WaitTracker::named(ThreadId thread, Timestamp at, const Pipeline& pipeline) {
  if (pipeline.vcpu(thread) && !pipeline.processes().is_of_several(thread)) return thread;
  const Threads& threads = pipeline.threads();
  return names_.of(thread, threads.name_at(thread, at), threads.has_one_name(thread));
}

// Sets the culprits' names as they were at the time: of a thread that ran, when it began to run; of
// a waker, when it woke the other.
void WaitTracker::name_culprits(std::span<WaitShare> shares, const Pipeline& pipeline) {
  for (WaitShare& share : shares) {
    const Timestamp at = share.part == Part::kPreempted ? share.begin : share.end;
    if (share.culprit->is_thread())
      share.culprit.set_thread(named(share.culprit->thread, at, pipeline));
    if (share.root != ThreadId{}) share.root = named(share.root, share.end, pipeline);
  }
}

void WaitTracker::run(Thread& thread, const ThreadChange& change, const Pipeline& pipeline) {
  if (thread.state == Thread::State::kRunning) return;
  if (thread.state == Thread::State::kAsleep) {
    charge(thread, Part::kBlocked, ProvenCulprit(Missing::kWakeups), change.at);
  } else if (finds_ != Finds::kAll) {
    thread.since = change.at;
  } else if (thread.queue_known && thread.cpu != change.cpu) {
    charge(thread, Part::kPreempted, ProvenCulprit(Missing::kMigrations), change.at);
  } else {
    if (!thread.queue_known && change.at > thread.since) ++counters_.cpu_assumed;
    divide(change.thread, thread, change.cpu, change.at);
  }
  doubt_handler(thread);
  name_culprits(std::span(thread.shares).subspan(thread.first), pipeline);
  thread.state = Thread::State::kRunning;
  ++counters_.waits;
  ended_shares_.assign(thread.shares.begin() + static_cast<std::ptrdiff_t>(thread.first),
                       thread.shares.end());
  if (!ended_shares_.empty() && ended_shares_.front().begin < begin_) [[unlikely]] {
    std::erase_if(ended_shares_, [this](const WaitShare& share) { return share.end <= begin_; });
    for (WaitShare& share : ended_shares_) share.begin = std::max(share.begin, begin_);
  }
  ended_ = {change.thread, ended_shares_};
  has_ended_ = true;
  if (change.at <= end_) [[likely]]
    return;
  std::erase_if(ended_shares_, [this](const WaitShare& share) { return share.begin >= end_; });
  for (WaitShare& share : ended_shares_) share.end = std::min(share.end, end_);
  ended_.shares = ended_shares_;
  has_ended_ = std::erase(open_at_end_, change.thread) != 0;
  counters_.waits -= has_ended_ ? 0 : 1;
}

void WaitTracker::end_at(Timestamp end) {
  end_ = end;
  for (const auto& [id, thread] : threads_.entries())
    if (thread.state != Thread::State::kRunning) open_at_end_.push_back(id);
}

const EndedWait* WaitTracker::finish(Timestamp end, const Pipeline& pipeline) {
  end = std::min(end, end_);
  for (auto& [id, thread] : threads_.entries()) {
    if (thread.state != Thread::State::kWaiting) continue;
    const bool is_first = thread.first == thread.shares.size();
    if ((is_first ? thread.since : thread.shares[thread.first].begin) >= end) continue;
    // Other events may show that the thread runs, or that it may run unseen.
    const auto vcpu = pipeline.exits().state(id);
    if (!vcpu || vcpu->state != State::kPreempted) continue;
    if (!thread.queue_known)
      charge(thread, Part::kPreempted, ProvenCulprit(Missing::kMigrations), end);
    run(thread, {.cpu = thread.cpu, .thread = id, .at = std::max(end, thread.since)}, pipeline);
    return &ended_;
  }
  return nullptr;
}

std::span<const WaitShare> WaitTracker::open(ThreadId id) const {
  const Thread* thread = threads_.find(id);
  if (thread == nullptr || thread->state == Thread::State::kRunning) return {};
  return std::span(thread->shares).subspan(thread->first);
}

void WaitTracker::on(const ThreadChange& change, const Pipeline& pipeline) {
  Thread* thread = finds_ == Finds::kWakers ? nullptr : threads_.find(change.thread);
  if (thread != nullptr && pipeline.exits().hidden() == change.thread) [[unlikely]]
    cut(*thread);
  switch (change.kind) {
    case ThreadChange::Kind::kLeaves:
      if (thread == nullptr && finds_ != Finds::kWakers && pipeline.vcpu(change.thread))
        thread = threads_.get(change.thread, kMostThreads);
      if (thread != nullptr) leave(*thread, change);
      break;
    case ThreadChange::Kind::kRuns:
      cause_.on_run(change);
      if (finds_ == Finds::kAll) runners_.on_run(change, pipeline.threads().switches());
      if (thread != nullptr) run(*thread, change, pipeline);
      break;
    case ThreadChange::Kind::kWoken:
      if (change.ends_sleep()) end_sleep(change, thread, pipeline);
      if (thread != nullptr) on_wakeup(*thread, change);
      break;
    case ThreadChange::Kind::kMoves:
      if (thread != nullptr) on_migration(*thread, change);
      break;
    case ThreadChange::Kind::kLost:
      cause_.on_lost(change.cpu);
      runners_.on_lost(change);
      threads_.lose([this](Thread& lost) { cut(lost); });
      break;
    case ThreadChange::Kind::kEnds:
      break;
  }
}

// Leaves out the thread's wait, because the thread may have run unseen.
void WaitTracker::cut(Thread& thread) {
  if (thread.state == Thread::State::kRunning) return;
  thread.state = Thread::State::kRunning;
  ++counters_.cut_by_loss;
}

void WaitTracker::end(ThreadId id) {
  Thread* thread = threads_.find(id);
  if (thread == nullptr) return;
  clear(*thread);
  thread->state = Thread::State::kRunning;
}

// Returns the cause for which the waker itself slept during most of the time from `since` to
// `until`; none if it did not.
WaitTracker::Root WaitTracker::root_of(const Culprit& waker, Timestamp since, Timestamp until,
                                       const Threads& threads) const {
  const ThreadFacts* facts = waker.is_thread() ? threads.find(waker.thread) : nullptr;
  if (facts == nullptr || facts->woken == Timestamp()) return {};
  const std::uint64_t slept = elapsed(std::max(facts->slept, since), std::min(facts->woken, until));
  const Woken* woken = 2 * slept > elapsed(since, until) ? woken_.find(waker.thread) : nullptr;
  return woken != nullptr && woken->at == facts->woken ? woken->cause : Root();
}

// Charges the sleep to what woke the thread; for a futex, to those who released it one after
// another.
void WaitTracker::charge_sleep(Thread& thread, const ProvenCulprit& by, const Root& root,
                               Timestamp end, const Threads& threads) {
  if (by->kind != CulpritKind::kFutex) return charge(thread, Part::kBlocked, by, end, root.thread);
  for (const FutexWakes::Piece& piece : cause_.futexes().pieces(thread.since)) {
    ProvenCulprit culprit = piece.culprit;
    const Root of_piece = root_of(culprit, thread.since, piece.end, threads);
    culprit.set_root(of_piece.kind);
    if (culprit->thread == by->thread) culprit.set_handler(by->handler);
    charge(thread, Part::kBlocked, culprit, piece.end, of_piece.thread);
  }
}

// Charges the part of the sleep in which another thread brought the page to that thread, and the
// time before to the waker: a worker may also have waited for something else.
void WaitTracker::charge_page(Thread& thread, const ProvenCulprit& by, const Root& root) {
  const PageServers::Served& served = *servers_.served_by();
  const bool same = by->thread == served.by;
  const CulpritKind kind = served.collapses ? CulpritKind::kCollapse : CulpritKind::kPage;
  const ProvenCulprit server =
      same ? by.as(kind) : ProvenCulprit({.kind = kind, .thread = served.by}, served.proof);
  charge(thread, Part::kBlocked, by, served.begin, root.thread);
  charge(thread, Part::kBlocked, server, served.end, same ? root.thread : ThreadId{});
}

// Ends the sleep of any thread; `thread` is set if the thread is a vCPU's.
void WaitTracker::end_sleep(const ThreadChange& change, Thread* thread, const Pipeline& pipeline) {
  ProvenCulprit by = cause_.of(change, pipeline);
  woke_ = {change.thread, by};
  if (finds_ == Finds::kWakers) {
    if (by->is_thread()) woke_->by.set_thread(named(by->thread, change.at, pipeline));
    return;
  }
  const Root root = root_of(by, change.since, change.at, pipeline.threads());
  by.set_root(root.kind);
  const Root cause = !cause_.ends(cause_.without_end())   ? Root()
                     : root.kind != CulpritKind::kUnknown ? root
                                                          : Root{by->kind, by->thread};
  if (Woken* woken = woken_.get(change.thread, kMostThreads)) *woken = {change.at, cause};
  if (thread == nullptr || thread->state != Thread::State::kAsleep) return;
  if (servers_.served_by()) {
    const auto vcpu = pipeline.vcpu(change.thread);
    const bool could_wait = vcpu && vcpu->in_fault && servers_.served_by()->since >= vcpu->begin;
    if (could_wait) charge_page(*thread, by, root);
  }
  charge_sleep(*thread, by, root, change.at, pipeline.threads());
  thread->without_end = cause_.without_end();
  thread->state = Thread::State::kWaiting;
  thread->since = change.at;
  thread->queue_known = false;
  thread->woken = true;
  thread->queued = Timestamp(~std::uint64_t{0});
}

void WaitTracker::on_wakeup(Thread& thread, const ThreadChange& change) {
  // Ignores sched_waking: its target is the CPU that the thread last ran on, before another is
  // chosen.
  if (thread.state != Thread::State::kWaiting || change.waking || change.to_cpu < 0 ||
      finds_ != Finds::kAll)
    return;
  runners_.on_queued(static_cast<std::uint32_t>(change.to_cpu));
  if (!thread.queue_known) thread.cpu = static_cast<std::uint32_t>(change.to_cpu);
  thread.queue_known = true;
  thread.queued = std::min(thread.queued, change.at);
}

void WaitTracker::on_migration(Thread& thread, const ThreadChange& change) {
  if (thread.state != Thread::State::kWaiting || change.to_cpu < 0 || finds_ != Finds::kAll) return;
  if (thread.queue_known) {
    divide(change.thread, thread, thread.cpu, change.at);
    thread.since = std::max(thread.since, change.at);
    thread.queued = change.at;
    thread.woken = false;
  }
  thread.cpu = static_cast<std::uint32_t>(change.to_cpu);
  thread.queue_known = true;
  runners_.on_queued(thread.cpu);
}

void WaitTracker::on(const Event& event, const Pipeline& pipeline) {
  pass();
  if (!quotas_) {
    quotas_ = pipeline.processes().quotas;
    runners_.set_knows_moves(pipeline.exits().model().moves);
  }
  if (finds_ != Finds::kWakers) servers_.on(event, pipeline.changes());
  for (const ThreadChange& change : pipeline.changes()) on(change, pipeline);
  if (std::holds_alternative<Marker>(event.payload)) {
    if (const VmmEvent* vmm = pipeline.vmm_event())
      cause_.on_vmm_event(event, vmm->name, std::get<Marker>(event.payload).text, pipeline);
  } else if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    cause_.on(event, *host);
    if (finds_ == Finds::kAll) runners_.on_interrupt(event, *host);
  } else if (const auto* block = std::get_if<BlockIo>(&event.payload)) {
    if (block->step == BlockStep::kCompleted) cause_.on_disk(event.cpu, *block);
  }
}

// Adds shares without a culprit for the exit's waits that no share covers, because the exit has
// more intervals than are kept.
void WaitTracker::add_rest(const ExitSpan& exit) {
  for (const Part part : {Part::kPreempted, Part::kBlocked}) {
    std::uint64_t charged = 0;
    for (const WaitShare& share : of_exit_) charged += share.part == part ? share.length() : 0;
    const std::uint64_t all = exit.parts[static_cast<std::size_t>(part)];
    if (charged >= all) continue;
    const Timestamp begin(exit.end.ns() - (all - charged));
    of_exit_.push_back({part, ProvenCulprit(Missing::kRoom), begin, exit.end});
  }
}

void WaitTracker::add_halts(const PartInterval& halted, std::span<const WaitShare> shares) {
  for (const WaitShare& share : shares) {
    const Timestamp begin = std::max(share.begin, halted.begin);
    const Timestamp end = std::min(share.end, halted.end);
    if (share.part == Part::kBlocked && end > begin)
      halts_.push_back({Part::kHalted, share.culprit, begin, end, share.root});
  }
}

void WaitTracker::find_shares(const ExitSpan& exit) {
  of_exit_.clear();
  halts_.clear();
  const auto has = [&exit](Part part) { return exit.parts[static_cast<std::size_t>(part)] != 0; };
  if (!has(Part::kBlocked) && !has(Part::kHalted) &&
      !(has(Part::kPreempted) && finds_ == Finds::kAll)) [[likely]]
    return;
  Thread* thread = threads_.find(exit.thread);
  static const std::vector<WaitShare> kNone;
  const std::vector<WaitShare>& shares = thread == nullptr ? kNone : thread->shares;
  auto share = shares.begin();
  for (const PartInterval& interval : exit.intervals) {
    if (interval.part == Part::kHalted) add_halts(interval, shares);
    if (interval.part != Part::kPreempted && interval.part != Part::kBlocked) continue;
    Timestamp at = interval.begin;
    const auto fill = [&](Timestamp until) {
      const bool dropped = thread != nullptr && thread->dropped(at);
      const Missing missing = dropped                               ? Missing::kRoom
                              : exit.ended == ExitSpan::End::kKnown ? Missing::kSwitches
                                                                    : Missing::kNone;
      if (until > at) of_exit_.push_back({interval.part, ProvenCulprit(missing), at, until});
      at = std::max(at, until);
    };
    while (share != shares.end() && share->end <= interval.begin) ++share;
    for (; share != shares.end() && share->begin < interval.end; ++share) {
      if (share->part != interval.part) continue;
      fill(std::min(share->begin, interval.end));
      const Timestamp end = std::min(share->end, interval.end);
      if (end <= at) continue;
      of_exit_.push_back({interval.part, share->culprit, at, end, share->root});
      at = end;
      if (share->end > interval.end) break;  // the share continues in the next interval
    }
    fill(interval.end);
  }
  add_rest(exit);
  if (thread != nullptr && thread->state == Thread::State::kRunning) {
    clear(*thread);
    thread->dropped_from = thread->dropped_until = Timestamp();
  }
}

LargestCulprit largest(std::span<const WaitShare> shares, Part part) {
  std::vector<LargestCulprit> sums;
  for (const WaitShare& share : shares) {
    if (share.part != part) continue;
    const Culprit& culprit = share.culprit;
    const auto same = std::ranges::find(sums, culprit, &LargestCulprit::culprit);
    if (same == sums.end()) {
      sums.push_back({culprit, share.length()});
    } else {
      same->ns += share.length();
    }
  }
  LargestCulprit largest;
  for (const LargestCulprit& sum : sums)
    if (sum.ns > largest.ns) largest = sum;
  return largest;
}

}  // namespace trapline
