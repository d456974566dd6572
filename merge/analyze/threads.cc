#include "merge/analyze/threads.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

RunState state_after(const SchedSwitch& sched) {
  if (sched.runnable) return RunState::kPreempted;
  if (sched.left == SchedSwitch::Left::kDead) return RunState::kEnded;
  return sched.left == SchedSwitch::Left::kStopped ? RunState::kStopped : RunState::kAsleep;
}

// Returns a copy with room for more threads, as a host that is watched for long has any number of
// them. Leaves out the threads that ended or that a loss hides and, if that is not enough, the half
// of the others that slept longest.
ThreadTable<ThreadFacts> with_room(const ThreadTable<ThreadFacts>& full, std::uint64_t losses) {
  using Entry = ThreadTable<ThreadFacts>::Entry;
  std::vector<const Entry*> rest;
  for (const Entry& entry : full.entries())
    if (entry.state.losses == losses && entry.state.state != RunState::kEnded)
      rest.push_back(&entry);
  const std::size_t kept = std::min(rest.size(), Threads::kMostThreads / 2);
  std::ranges::nth_element(rest, rest.begin() + static_cast<std::ptrdiff_t>(kept), std::greater(),
                           [](const Entry* entry) {
                             const ThreadFacts& facts = entry->state;
                             return std::tuple(!is_asleep(facts.state), facts.since);
                           });
  ThreadTable<ThreadFacts> table;
  for (const Entry* entry : std::span(rest).first(kept))
    if (ThreadFacts* place = table.get(entry->thread, kept)) *place = entry->state;
  return table;
}

}  // namespace

ThreadChanges Threads::changes_of(const Event& event) {
  const bool follows = processes_ != nullptr && !is_guest(event.machine);
  const bool keeps = keeps_facts_ && follows;
  auto& [first, second] = changes_;
  first = {
      .in_loss = event.at < loss_end_, .cpu = event.cpu, .other = event.thread, .at = event.at};
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    second = first;
    first.kind = ThreadChange::Kind::kLeaves;
    first.now = state_after(*sched);
    first.fair = sched->fair;
    first.thread = second.other = sched->prev;
    first.other = second.thread = sched->next;
    second.kind = ThreadChange::Kind::kRuns;
    second.now = RunState::kRuns;
    second.name = sched->next_comm;
    if (!is_guest(event.machine)) {
      note_switched(sched->prev);
      note_switched(sched->next);
    }
    if (keeps) {
      note_switch(first);
      note_switch(second);
    }
    if (follows) {
      switches_.on_run(second, *processes_);
      second.lacks_cpu = switches_.lacks_cpu(event.at);
    }
    return changes_;
  }
  if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    first.kind = ThreadChange::Kind::kWoken;
    first.thread = wakeup->thread;
    first.to_cpu = wakeup->cpu;
    first.waking = wakeup->waking;
    first.context = wakeup->context;
    first.level = wakeup->level;
    // sched_waking names the CPU on which the thread ran last, perhaps before the recording.
    first.to_unseen =
        follows && switches_.may_hide(first, !wakeup->waking || has_switched(wakeup->thread));
    if (keeps) note_wakeup(first);
    return ThreadChanges(changes_).first(1);
  }
  if (const auto* host = std::get_if<HostEvent>(&event.payload)) {
    if (host->step == HostStep::kThreadEnds && switched_.empty() && !is_guest(event.machine)) {
      first.kind = ThreadChange::Kind::kEnds;
      first.now = RunState::kEnded;
      first.thread = event.thread;
      return ThreadChanges(changes_).first(1);
    }
    if (host->step != HostStep::kMigrate) return {};
    first.kind = ThreadChange::Kind::kMoves;
    first.thread = ThreadId{host->thread};
    first.to_cpu = host->number;
    first.to_unseen = follows && switches_.may_hide(first);
    first.lacks_cpu = switches_.lacks_cpu(event.at);
    return ThreadChanges(changes_).first(1);
  }
  if (is_guest(event.machine)) return {};
  const auto& lost = *std::get_if<Lost>(&event.payload);
  first.kind = ThreadChange::Kind::kLost;
  first.since = lost.from;
  first.until = lost.to;
  loss_end_ = std::max(loss_end_, lost.to);
  ++losses_;
  switches_.on_lost(event.cpu);
  return ThreadChanges(changes_).first(1);
}

void Threads::note_switched(ThreadId thread) {
  if (static_cast<std::int32_t>(thread) < 0) return;
  const auto tid = static_cast<std::size_t>(tid_of(thread));
  if (tid >= switched_.size()) [[unlikely]]
    switched_.resize(tid + 1);
  switched_[tid] = true;
}

void Threads::note_switch(ThreadChange& change) {
  if (change.thread == ThreadId{}) return;  // the idle thread of all CPUs
  ThreadFacts* facts = facts_.get(change.thread, kMostThreads);
  if (facts == nullptr) [[unlikely]] {
    facts_ = with_room(facts_, losses_);
    facts = facts_.get(change.thread, kMostThreads);
  }
  if (facts->losses != losses_) *facts = {.comm = facts->comm, .losses = losses_};
  if (change.runs() && facts->comm != change.name) [[unlikely]] {
    constexpr std::size_t kLongestComm = 15;
    if (!facts->comm.empty()) end_name(change.thread, change.at, facts->comm);
    facts->comm = change.name.substr(0, kLongestComm);
  }
  change.was = facts->state;
  change.since = facts->since;
  facts->state = change.now;
  facts->since = change.at;
  if (!is_asleep(change.now)) return;
  facts->slept = change.at;
  facts->woken = {};
}

// Ends a thread's name. Beyond kMostOldNames no thread's name is known, because it may have
// changed.
void Threads::end_name(ThreadId thread, Timestamp at, std::string_view name) {
  if (old_names_count_ < kMostOldNames) old_names_[thread].push_back({at, std::string(name)});
  ++old_names_count_;
}

std::string_view Threads::name_at(ThreadId thread, Timestamp at) const {
  if (old_names_count_ > kMostOldNames) return {};
  if (const auto old = old_names_.find(thread); old != old_names_.end()) {
    for (const OldName& name : old->second)
      if (at < name.until) return name.text;
  }
  const ThreadFacts* facts = facts_.find(thread);
  return facts == nullptr ? std::string_view() : facts->comm;
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

void RecordedSwitches::note(ThreadId thread, bool surely, const Processes& processes) {
  if (thread == ThreadId{} || whole_.size() >= kMostThreads) return;
  const auto process = processes.selected;
  if (surely || (process && processes.of(thread, ThreadId{}) == *process)) whole_.insert(thread);
}

bool RecordedSwitches::is_stopper(std::string_view comm, std::uint32_t cpu) {
  constexpr std::string_view kStopper = "migration/";
  if (!comm.starts_with(kStopper)) [[likely]]
    return false;
  comm.remove_prefix(kStopper.size());
  std::uint32_t number = 0;
  return take_number(comm, number) && comm.empty() && number == cpu;
}

// Counts a skip: the thread that leaves the CPU is not the one that the CPU last switched to.
// Leaves out skips by a recorder that does not record itself: it has few threads, so each of its
// skips has a thread in common with the first, and none is of the idle thread.
void RecordedSwitches::note_skip(Cpu& cpu, const Skip& skip) {
  const auto in_first = [&](ThreadId thread) {
    return thread == cpu.first.to || thread == cpu.first.from;
  };
  const bool idle = skip.to == ThreadId{} || skip.from == ThreadId{};
  if (cpu.skips == 0) {
    cpu.first = skip;
  } else if (!idle && (in_first(skip.to) || in_first(skip.from))) {
    return;
  }
  ++cpu.skips;
  if (cpu.skips >= kLeastSkips && cpu.skips * kMostBetweenSkips >= cpu.switches) selected_ = true;
}

// Returns the record of an event's CPU; nullptr if there is no room.
inline RecordedSwitches::Cpu* RecordedSwitches::cpu_of(std::uint32_t cpu) {
  if (cpu >= kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) [[unlikely]]
    cpus_.resize(cpu + 1);
  if (!cpus_[cpu].seen) [[unlikely]] {
    cpus_[cpu].seen = true;
    unseen_.erase(cpu);
  }
  return &cpus_[cpu];
}

void RecordedSwitches::on_run(const ThreadChange& change, const Processes& processes) {
  const auto [number, prev, next] = std::tuple(change.cpu, change.other, change.thread);
  skipped_.reset();
  Cpu* const place = cpu_of(number);
  if (place == nullptr) return;
  Cpu& cpu = *place;
  ++cpu.switches;
  if (processes.selected) selected_ = true;
  const auto& recorder = processes.recorder;
  if (cpu.thread && *cpu.thread != prev &&
      (selected_ || (recorder != cpu.thread && recorder != prev))) {
    skipped_ = cpu.thread;
    if (!cpu.stopper || prev != ThreadId{}) note_skip(cpu, {*cpu.thread, prev});
  }
  cpu.thread = next;
  cpu.stopper = is_stopper(change.name, number);
  if (!selected_) [[likely]]
    return;
  note(prev, next == ThreadId{}, processes);
  note(next, prev == ThreadId{}, processes);
}

bool RecordedSwitches::hides(const ThreadChange& change, std::uint32_t to, bool since_begin) {
  (void)cpu_of(change.cpu);
  if (!since_begin || (to < cpus_.size() && cpus_[to].seen)) return false;
  if (selected_) return !has_all_of(change.thread);
  unseen_.emplace(to, change.at);
  return true;
}

std::vector<std::uint32_t> RecordedSwitches::unseen(Timestamp end) const {
  std::vector<std::uint32_t> cpus;
  for (const auto& [cpu, since] : unseen_)
    if (elapsed(since, end) >= kMostWait && !(runs_vcpu_ && runs_vcpu_(cpu))) cpus.push_back(cpu);
  return cpus;
}

void RecordedSwitches::on_lost(std::uint32_t number) {
  skipped_.reset();
  if (Cpu* cpu = cpu_of(number)) cpu->thread.reset();
}

}  // namespace trapline
