#include "merge/analyze/stall_tracker.h"

#include <algorithm>
#include <utility>

#include "merge/analyze/pipeline.h"

namespace trapline {

void StallShares::add(const StallShare& share) {
  if (share.ns == 0) return;
  const auto same = std::ranges::find_if(sums_, [&](const StallShare& one) {
    return one.cause == share.cause && one.culprit == share.culprit && one.work == share.work;
  });
  if (same != sums_.end()) {
    same->ns += share.ns;
    if (same->root != share.root) same->root = {};
  } else if (sums_.size() < kMost) {
    sums_.push_back(share);
  } else if (const StallShare other{share.cause, unknown_for(Missing::kRoom), share.ns};
             share.culprit != other.culprit || share.work != other.work) {
    add(other);
  } else {
    sums_.push_back(other);  // the sum of further culprits: one for each cause
  }
}

void StallShares::add(const StallShares& others) {
  for (const StallShare& share : others.sums_) add(share);
}

void StallShares::set_work(MemoryWork work) {
  for (StallShare& share : sums_)
    if (share.work == MemoryWork::kNone) share.work = work;
}

std::uint64_t StallShares::total() const {
  std::uint64_t sum = 0;
  for (const StallShare& share : sums_) sum += share.ns;
  return sum;
}

std::vector<StallShare> StallShares::largest_first() const {
  std::vector<StallShare> sorted = sums_;
  std::ranges::stable_sort(sorted, std::ranges::greater(), &StallShare::ns);
  return sorted;
}

namespace {

bool is_stopped(State state) { return state <= State::kBlocked || state == State::kPaused; }

// Returns whether KVM has halted the vCPU for a page that is not present: no guest halts itself in
// a page fault.
bool waits_for_page(const ExitSpan& exit) {
  return is_x86(exit.reason) && exit.halt && !is_halt(exit.reason) &&
         exit.detail.kind == DetailKind::kPageFault;
}

StallCause cause_of(State state) {
  using enum StallCause;
  // In the order of State. A vCPU that KVM halts for a page is blocked; other halts are no stops.
  constexpr StallCause kCauses[] = {kKernel, kUser, kPreempted, kBlocked, kBlocked,
                                    kGuest,  kVmm,  kNotKnown,  kNotKnown};
  return kCauses[static_cast<std::size_t>(state)];
}

}  // namespace

StallTracker::Thread* StallTracker::thread_of(ThreadId id) {
  Thread* thread = threads_.get(id, kMostThreads);
  if (thread != nullptr) thread->id = id;
  return thread;
}

void StallTracker::on(const Event& event, const Pipeline& pipeline) {
  pass(event.at);
  const ThreadChanges changes = pipeline.changes();
  if (const EndedWait* wait = pipeline.waits()->ended()) on_wait(wait->thread, wait->shares);
  if (const GuestRun* run = pipeline.exits().guest_run()) {
    if (pipeline.counts(run->thread)) on_guest(*run);
    on_exit(run->thread, run->end, pipeline);
  }
  for (const ThreadChange& change : changes) on(change);
  if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (Thread* thread = threads_.find(event.thread)) {
      if (thread->halts) settle(*thread);
      thread->halts = false;
    }
    on_entry(event.thread, event.at, pipeline);
  } else if (const auto* exit = std::get_if<KvmExit>(&event.payload)) {
    if (Thread* thread = thread_of(event.thread))
      thread->halts = is_halt({exit->reason, exit->isa, exit->exception_class});
    on_exit(event.thread, event.at, pipeline);
  } else if (std::holds_alternative<KvmUserspaceExit>(event.payload)) {
    (void)thread_of(event.thread);  // without kvm_exit, keeps the thread's waits from now on
  }
}

void StallTracker::on(const ThreadChange& change) {
  if (change.loses()) {
    // Forgets which vCPUs are in the guest: their next entries or exits show it.
    threads_.lose([](Thread& thread) { thread.left.reset(); });
  }
  const bool stops = change.now == RunState::kStopped || change.now == RunState::kEnded;
  Thread* thread = stops || change.runs() ? threads_.find(change.thread) : nullptr;
  if (thread == nullptr) return;
  // Without a piece of time since the last settle(), as before the figures begin, there is no
  // paused time that an earlier stop by a signal could explain.
  if (change.runs() && thread->pieces.empty()) thread->stops.clear();
  if (!stops) return;
  if (change.now == RunState::kEnded) {
    leave_out_end(*thread);
  } else if (thread->stops.size() < kMostPieces) {
    thread->stops.push_back(change.at);
  }
}

void StallTracker::on_wait(ThreadId id, std::span<const WaitShare> shares) {
  Thread* thread = threads_.find(id);
  if (thread == nullptr || thread->shares.size() + shares.size() > kMostPieces) return;
  thread->shares.insert(thread->shares.end(), shares.begin(), shares.end());
}

void StallTracker::on(std::span<const StateRun> runs, const Pipeline& pipeline) {
  if (pieces_ >= kMostOfAll) {
    for (auto& entry : threads_.entries()) settle(entry.state);
  }
  for (const StateRun& run : runs) {
    if (!pipeline.counts(run.thread)) continue;
    Thread* thread = thread_of(run.thread);
    if (thread == nullptr) continue;
    if (thread->pieces.size() >= kMostPieces) settle(*thread);
    add_piece(*thread, run);
  }
}

void StallTracker::add_piece(Thread& thread, const StateRun& piece) {
  thread.pieces.push_back(piece);
  ++pieces_;
}

void StallTracker::on(const ExitSpan& exit, bool wanted) {
  Thread* thread = thread_of(exit.thread);
  if (thread == nullptr) return;
  const std::vector<StateRun> later = take_later(*thread, exit.end);
  settle(*thread);
  for (const PartInterval& interval : exit.intervals)
    add_piece(*thread,
              {thread->id, static_cast<State>(interval.part), interval.begin, interval.end});
  settle(*thread, &exit, wanted);
  for (const StateRun& piece : later) add_piece(*thread, piece);
}

// Removes and returns the pieces of the thread's time after `end`, where an exit ended. Without
// kvm_exit the exit is reported only when the next one begins, when later pieces are already known.
std::vector<StateRun> StallTracker::take_later(Thread& thread, Timestamp end) {
  std::vector<StateRun> later;
  if (thread.pieces.empty()) return later;
  const auto is_later = [end](const StateRun& piece) { return piece.begin >= end; };
  std::ranges::copy_if(thread.pieces, std::back_inserter(later), is_later);
  pieces_ -= std::erase_if(thread.pieces, is_later);
  return later;
}

void StallTracker::on_guest(const GuestRun& run) {
  Thread* thread = thread_of(run.thread);
  if (thread == nullptr) return;
  settle(*thread);
  if (run.begin != thread->until) close(*thread);
  thread->until = run.end;
  const Chain& chain = *thread->chain;
  if (!chain.any) return;
  thread->between.add({StallCause::kGuest, Culprit(), elapsed(run.begin, run.end)});
  if (elapsed(chain.stall.end, run.end) > kMostBetween) close(*thread);
}

// Adds a piece of a vCPU's time to `into`, divided where memory was reclaimed or compacted. `page`:
// in this piece KVM halted the vCPU for a page.
void StallTracker::divide(const Thread& thread, const StateRun& piece, bool page,
                          StallShares& into) const {
  StateRun cut = piece;
  const MemoryWork work = piece.state == State::kKernel && !page ? thread.work : MemoryWork::kNone;
  if (piece.state != State::kPaused) {
    const auto runs = faults_.memory_of(thread.id);
    auto run = std::ranges::upper_bound(runs, piece.begin, {}, &MemoryWorks::Run::end);
    for (; run != runs.end() && run->begin < piece.end; ++run) {
      const Timestamp begin = std::max(run->begin, cut.begin), end = std::min(run->end, piece.end);
      divide(thread, {thread.id, piece.state, cut.begin, begin}, page, work, into);
      divide(thread, {thread.id, piece.state, begin, end}, page, run->work, into);
      cut.begin = end;
    }
  }
  divide(thread, cut, page, work, into);
}

// Adds a piece of a vCPU's time to `into`, a wait divided among its culprits. `page`: KVM halted
// the vCPU for a page; `work`: the memory work that the time is charged to.
void StallTracker::divide(const Thread& thread, const StateRun& piece, bool page, MemoryWork work,
                          StallShares& into) const {
  const bool waits = piece.state == State::kPreempted || piece.state == State::kBlocked ||
                     piece.state == State::kPaused || page;
  StallCause cause = cause_of(piece.state);
  if (!waits)
    return into.add({cause, Culprit(), elapsed(piece.begin, piece.end), ThreadId{}, work});
  if (is_stopped_by_signal(thread, piece)) cause = StallCause::kSignal;
  Timestamp at = piece.begin;
  const auto rest = [&](Timestamp until) {
    if (until <= at) return;
    // The time up to `until` has no share. In a halt for a page (`page`) KVM polled then, before or
    // between the sleeps; otherwise the culprit is not known.
    into.add({page ? StallCause::kKernel : cause, Culprit(), elapsed(at, until), ThreadId{}, work});
    at = until;
  };
  // The shares are in order of time, like the stops.
  auto next = std::ranges::upper_bound(thread.shares, at, {}, &WaitShare::end);
  for (; next != thread.shares.end() && next->begin < piece.end; ++next) {
    const WaitShare& share = *next;
    const bool fits =
        page || share.part == (cause == StallCause::kPreempted ? Part::kPreempted : Part::kBlocked);
    if (!fits) continue;
    rest(std::min(share.begin, piece.end));
    const Timestamp end = std::min(share.end, piece.end);
    Culprit culprit = share.culprit;
    StallCause why = page ? cause_of(static_cast<State>(share.part)) : cause;
    MemoryWork in = work;
    if (culprit.kind == CulpritKind::kPage && why == StallCause::kBlocked) why = StallCause::kPage;
    if (culprit.kind == CulpritKind::kCollapse && work == MemoryWork::kNone)
      in = MemoryWork::kCollapse;
    if (culprit.kind == CulpritKind::kPage || culprit.kind == CulpritKind::kCollapse)
      culprit.kind = CulpritKind::kThread;
    into.add({why, culprit, elapsed(at, end), share.root, in});
    at = std::max(at, end);
  }
  rest(piece.end);
}

bool StallTracker::is_stopped_by_signal(const Thread& thread, const StateRun& piece) {
  if (piece.state != State::kPaused) return false;
  const auto after = std::ranges::lower_bound(thread.stops, piece.end);
  if (after == thread.stops.begin()) return false;
  const Timestamp stop = *std::prev(after);
  // A stop by a signal before this paused piece explains an earlier piece, not this one, unless
  // only paused time is in between, as when the figures begin in the stopped time.
  return stop >= piece.begin || std::ranges::none_of(thread.pieces, [&](const StateRun& other) {
           return other.begin >= stop && other.begin < piece.begin && other.state != State::kPaused;
         });
}

// Removes the thread's last pieces because it ended: the guest was switched off, or killed. Keeps
// the time in which a signal had stopped the thread.
void StallTracker::leave_out_end(Thread& thread) {
  std::ranges::stable_sort(thread.pieces, {}, &StateRun::begin);
  const auto is_of_end = [&thread](const StateRun& piece) {
    return piece.state != State::kNotSeen && !is_stopped_by_signal(thread, piece);
  };
  while (!thread.pieces.empty() && is_of_end(thread.pieces.back())) {
    thread.pieces.pop_back();
    --pieces_;
  }
}

// Counts a halt's pieces as halted if no event shows when the halt slept: switches were recorded
// later, or not at all.
void StallTracker::leave_out_halt(Thread& thread) {
  if (std::ranges::find(thread.pieces, State::kHalted, &StateRun::state) != thread.pieces.end())
    return;
  for (StateRun& piece : thread.pieces)
    if (piece.state <= State::kBlocked) piece.state = State::kHalted;
}

// Adds the thread's pieces since the last call to its stalls: those of the exit that ended or,
// without `exit`, other time.
void StallTracker::settle(Thread& thread, const ExitSpan* exit, bool wanted) {
  if (thread.pieces.empty()) return;
  // The pieces are nearly always sorted already, and sorting takes memory.
  if (!std::ranges::is_sorted(thread.pieces, {}, &StateRun::begin))
    std::ranges::stable_sort(thread.pieces, {}, &StateRun::begin);
  if (exit != nullptr ? exit->halt && is_halt(exit->reason) : thread.halts) leave_out_halt(thread);
  const bool exit_waits = exit != nullptr && waits_for_page(*exit);
  thread.work = MemoryWork::kNone;
  if (exit != nullptr && (is_dirty_log(exit->reason) || faults_.last().logged))
    thread.work = MemoryWork::kDirtyLog;
  if (thread.work == MemoryWork::kDirtyLog && wanted) {
    ++dirty_log_.exits;
    dirty_log_.kernel_ns += exit->parts[static_cast<std::size_t>(Part::kKernel)];
  }
  const auto end_unit = [&] {
    if (!unit_->any) return;
    unit_->stall.exits = 1;
    unit_->stall.open = exit == nullptr;
    unit_->wanted = exit != nullptr ? wanted : of_all_;
    if (exit != nullptr) {
      unit_->stall.longest = *exit;
      unit_->stall.fault = faults_.last().why;
      unit_->last.is_fault = exit->detail.kind == DetailKind::kPageFault;
      if (unit_->last.is_fault) unit_->fault = Fault{exit->detail.value, exit->rip};
      if (unit_->last.is_fault || is_interrupt(exit->reason)) unit_->last.rip = exit->rip;
    }
    join(thread);
    unit_->clear();
  };
  for (const StateRun& piece : thread.pieces) {
    if (piece.begin != thread.until) {
      end_unit();
      close(thread);
    }
    const bool page = exit_waits && piece.state == State::kHalted;
    if (is_stopped(piece.state) || page) {
      Last& last = unit_->last;
      if (!unit_->any) unit_->stall.begin = last.begin = piece.begin;
      unit_->any = true;
      unit_->stall.end = piece.end;
      last.awake &= piece.state == State::kKernel || piece.state == State::kPreempted;
      divide(thread, piece, page, last.shares);
    } else {
      // The time before a halt's sleep belongs to no stall.
      if (piece.state == State::kHalted) unit_->clear();
      end_unit();
      close(thread);
    }
    tell_gaps(thread, piece, page);
    thread.until = piece.end;
  }
  end_unit();
  forget_settled(thread, exit != nullptr ? std::max(thread.until, exit->end) : thread.until);
  if (thread.vm != nullptr) end_gaps(*thread.vm, false);
}

// Removes the thread's pieces, and its shares and stops up to `until`. Later ones belong to an exit
// that has no piece yet.
void StallTracker::forget_settled(Thread& thread, Timestamp until) {
  constexpr std::size_t kKept = 256;  // capacity that a thread keeps
  pieces_ -= thread.pieces.size();
  thread.pieces.clear();
  if (thread.pieces.capacity() > kKept) thread.pieces.shrink_to_fit();
  std::erase_if(thread.shares, [until](const WaitShare& share) { return share.end <= until; });
  std::erase_if(thread.stops, [until](Timestamp stop) { return stop < until; });
}

// Returns whether the exits in `chain` and a further one of `length` from `at` on are one stall,
// because the time between is short enough.
bool StallTracker::goes_on(const Chain& chain, Timestamp at, std::uint64_t length) {
  const std::uint64_t between = elapsed(chain.stall.end, at);
  return chain.any && between <= kMostBetween &&
         between * kShareBetween <= std::min(chain.stall.length(), length);
}

// Returns whether the guest is at the instruction whose page fault comes again, or would come if no
// interrupt had come first. Without the rip it is not known whether the guest got past the
// instruction; any other exit there, such as an access to a device, shows that it did.
bool StallTracker::is_at_the_fault(const Chain& chain, const Chain& unit) {
  if (unit.last.rip == 0 || unit.last.rip != chain.last.rip) return false;
  return chain.fault && unit.fault ? *chain.fault == *unit.fault : chain.fault || unit.fault;
}

// Joins `unit`, one exit or its part after a halt, to the thread's chain of joined exits; or keeps
// its time for the case that the next exit joins; or begins a new chain with it.
void StallTracker::join(Thread& thread) {
  Chain &chain = *thread.chain, &unit = *unit_;
  Stall &stall = chain.stall, &added = unit.stall;
  unit.same = unit.fault ? 1 : 0;
  if (chain.any) {
    const bool again =
        is_at_the_fault(chain, unit) && elapsed(stall.end, added.begin) <= kMostBetween;
    if (again || goes_on(chain, added.begin, added.length())) {
      // The first fault may have had another reason than unmapping; an interrupt is not a fault.
      if (again && chain.last.is_fault && chain.same > 1 && chain.last.awake &&
          faults_.unmaps().any(chain.last.begin, stall.end))
        chain.last.shares.set_work(MemoryWork::kUnmap);
      chain.shares.add(chain.last.shares);
      chain.shares.add(thread.between);
      std::swap(chain.last, unit.last);
      stall.exits += thread.between_exits + 1;
      stall.end = added.end;
      stall.open = added.open;
      chain.same = again ? chain.same + unit.same : unit.same;
      if (unit.fault || !again) chain.fault = unit.fault;
      if (chain.same > chain.most_times) {
        chain.most = *chain.fault;
        chain.most_times = chain.same;
      }
      if (added.longest && (!stall.longest || added.longest->total() > stall.longest->total())) {
        stall.longest = added.longest;
        stall.fault = added.fault;
        chain.wanted = unit.wanted;
      }
      thread.between.clear();
      thread.between_exits = 0;
      return;
    }
    if (added.length() <= stall.length() && elapsed(stall.end, added.end) <= kMostBetween) {
      thread.between.add(unit.last.shares);
      ++thread.between_exits;
      return;
    }
  }
  close(thread);
  std::swap(thread.chain, unit_);
}

void StallTracker::close(Thread& thread) {
  thread.between.clear();
  thread.between_exits = 0;
  const Chain& chain = *thread.chain;
  if (!chain.any) return;
  if (chain.wanted && chain.stall.length() >= at_least_ns_) hand_out(thread.id, chain);
  thread.chain->clear();
}

void StallTracker::hand_out(ThreadId id, const Chain& chain) {
  Stall stall = chain.stall;
  stall.thread = id;
  stall.open = stall.open && stall.end == end_;
  if (chain.most_times > 1) {
    stall.fault_address = chain.most.address;
    stall.faults = chain.most_times;
  }
  StallShares shares = chain.shares;
  shares.add(chain.last.shares);
  stall.shares = shares.largest_first();
  ended_.push_back(std::move(stall));
}

std::vector<StallTime> StallTracker::open(const Pipeline& pipeline, Timestamp now,
                                          std::uint64_t at_least_ns) const {
  std::vector<StallTime> open;
  for (const auto& [id, thread] : threads_.entries()) {
    const auto vcpu = pipeline.vcpu(id);
    if (!vcpu || !vcpu->state || !pipeline.counts(id)) continue;
    const auto add = [&, thread_id = id](Timestamp begin, Timestamp end, bool lasts) {
      if (begin < end && elapsed(begin, end) >= at_least_ns)
        open.push_back({thread_id, begin, end, lasts});
    };
    const Chain& chain = *thread.chain;
    const StallTime& past = chain.stall;
    const bool halts = is_halt(vcpu->reason) && vcpu->halted_ns == 0;
    if (is_stopped(*vcpu->state) && !halts) {
      const Timestamp begin(vcpu->begin.ns() + vcpu->halted_ns);
      const bool joined = goes_on(chain, begin, elapsed(begin, now));
      add(joined ? past.begin : begin, now, true);
      if (chain.any && elapsed(past.end, begin) > kMostBetween) add(past.begin, past.end, false);
    } else if (chain.any) {
      const bool may_go_on = vcpu->state == State::kGuest && elapsed(past.end, now) <= kMostBetween;
      add(past.begin, may_go_on ? now : past.end, may_go_on);
    }
  }
  return open;
}

void StallTracker::finish(Timestamp end, const Pipeline& pipeline) {
  end_ = std::max(end_, end);
  for (auto& [process, vm] : vms_) add_gap(vm, end_, true);
  for (auto& entry : threads_.entries()) {
    on_wait(entry.thread, pipeline.waits()->open(entry.thread));
    settle(entry.state);
    close(entry.state);
  }
  for (auto& [process, vm] : vms_) {
    end_gaps(vm, true);
    if (!vm.counts || !of_all_) continue;
    std::ranges::move(vm.stalls, std::back_inserter(ended_));
  }
}

// Finds the times in which no vCPU of a VM was in the guest.

namespace {

constexpr std::uint64_t kNearlyAll = 9, kOf = 10;

}  // namespace

StallTracker::Vm* StallTracker::vm_of(Thread& thread, const Pipeline& pipeline) {
  if (thread.vm != nullptr) return thread.vm;
  const ThreadId process = pipeline.processes().of(thread.id, ThreadId{});
  if (process == ThreadId{}) return nullptr;
  Vm& vm = vms_[process];
  if (vm.vcpus.size() >= kMostVcpus) {
    vm.counts = false;  // nothing is reported about this VM
    return nullptr;
  }
  vm.vcpus.push_back(thread.id);
  vm.counts = vm.counts && pipeline.counts(thread.id);
  return thread.vm = &vm;
}

void StallTracker::on_entry(ThreadId id, Timestamp at, const Pipeline& pipeline) {
  Thread* thread = thread_of(id);
  Vm* vm = thread == nullptr ? nullptr : vm_of(*thread, pipeline);
  if (vm == nullptr || !thread->left) return;
  if (elapsed(*thread->left, at) >= at_least_ns_) add_gap(*vm, at, false);
  thread->left.reset();
}

void StallTracker::on_exit(ThreadId id, Timestamp at, const Pipeline& pipeline) {
  Thread* thread = thread_of(id);
  if (thread == nullptr)  // no room: nothing is reported about the VM
    return void(vms_[pipeline.processes().of(id, ThreadId{})].counts = false);
  const bool is_new = thread->vm == nullptr;
  Vm* vm = vm_of(*thread, pipeline);
  if (vm == nullptr) return;
  if (is_new) {  // the vCPU was in the guest all the time
    vm->gaps.clear();
    vm->stalls.clear();
  }
  if (!thread->left) thread->left = at;
}

void StallTracker::add_gap(Vm& vm, Timestamp end, bool open) {
  Timestamp begin;  // when the last vCPU left the guest
  for (const ThreadId id : vm.vcpus) {
    const Thread* thread = threads_.find(id);
    if (thread == nullptr || !thread->left) return;
    begin = std::max(begin, *thread->left);
  }
  if (vm.vcpus.size() < 2 || elapsed(begin, end) < at_least_ns_) return;
  if (vm.gaps.size() >= kMostGaps) vm.gaps.pop_front();
  Gap& gap = vm.gaps.emplace_back(Gap{begin, end, open, {}});
  for (const ThreadId id : vm.vcpus) gap.vcpus[id].left = *threads_.find(id)->left;
}

void StallTracker::tell_gaps(const Thread& thread, const StateRun& piece, bool page) {
  if (thread.vm == nullptr) return;
  for (Gap& gap : thread.vm->gaps) {
    StateRun cut = piece;
    cut.begin = std::max(piece.begin, gap.begin);
    cut.end = std::min(piece.end, gap.end);
    if (cut.end <= cut.begin) continue;
    Gap::Vcpu& vcpu = gap.vcpus[thread.id];
    if (piece.state == State::kHalted && !page) {
      vcpu.shares.add({StallCause::kHalted, Culprit(), elapsed(cut.begin, cut.end)});
    } else if (piece.state <= State::kHalted || piece.state == State::kPaused) {
      vcpu.stopped_ns += elapsed(cut.begin, cut.end);
      divide(thread, cut, page, vcpu.shares);
    }
  }
}

// Ends the VM's gaps (times in which no vCPU was in the guest), from the earliest on, as far as the
// time of every vCPU is known up to the gap's end; every gap if `all`.
void StallTracker::end_gaps(Vm& vm, bool all) {
  while (!vm.gaps.empty()) {
    const Gap& gap = vm.gaps.front();
    const bool known = std::ranges::all_of(vm.vcpus, [&](ThreadId id) {
      const Thread* thread = threads_.find(id);
      return thread != nullptr && thread->until >= gap.end;
    });
    if (!known && !all) return;
    end_gap(vm, gap);
    vm.gaps.pop_front();
  }
}

void StallTracker::end_gap(Vm& vm, const Gap& gap) {
  const std::uint64_t length = elapsed(gap.begin, gap.end);
  Stall stall;
  const Gap::Vcpu* longest = nullptr;
  for (const auto& [id, vcpu] : gap.vcpus) {
    // A vCPU whose thread has ended does not count.
    if (vcpu.shares.total() != 0) ++stall.vcpus;
    stall.not_halted += vcpu.stopped_ns * kOf >= length * kNearlyAll ? 1 : 0;
    // The vCPU that left the guest first is taken among those that were stopped all the time: it
    // may have kept the others waiting.
    const auto key = [](const Gap::Vcpu& of) { return std::pair(of.stopped_ns, ~of.left.ns()); };
    if (vcpu.stopped_ns == 0 || (longest != nullptr && key(vcpu) <= key(*longest))) continue;
    longest = &vcpu;
    stall.thread = id;
  }
  // A stall that is not completely known is not claimed.
  if (stall.not_halted < 2 || longest->shares.total() != length) return;
  stall.begin = gap.begin;
  stall.end = gap.end;
  stall.open = gap.open;
  stall.shares = longest->shares.largest_first();
  vm.stalls.push_back(std::move(stall));
  if (vm.stalls.size() < 2 * kMostOfVm) return;
  std::ranges::nth_element(vm.stalls, vm.stalls.begin() + kMostOfVm, std::ranges::greater(),
                           &Stall::length);
  vm.stalls.resize(kMostOfVm);
}

}  // namespace trapline
