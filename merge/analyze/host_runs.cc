#include "merge/analyze/host_runs.h"

#include <algorithm>
#include <utility>

namespace trapline {

// Adds the time of the CPU's thread up to `end`. If another thread has the CPU by then (`known` is
// false), adds only the time up to the thread's last event.
void HostRuns::run(Cpu& cpu, Timestamp end, bool known) {
  if (!cpu.thread) return;
  const Timestamp until = known ? end : cpu.last;
  if (!known) unknown_ns_ += elapsed(until, end);
  Thread* thread = threads_.get(*cpu.thread, kMostThreads);
  (thread != nullptr ? thread->ran_ns : unknown_ns_) += elapsed(cpu.since, until);
  if (thread != nullptr && cpu.sets_line) thread->line_ns += elapsed(cpu.since, until);
  if (until > cpu.since) {
    last_ended_ = {*cpu.thread, cpu.since, until};
    ++ended_;
  }
  cpu.thread.reset();
  cpu.sets_line = false;
  cpu.began = {};
}

// Counts the time of an interrupt. A softirq's time includes the interrupts in it.
void HostRuns::on_interrupt(Cpu& cpu, const Event& event, HostStep step) {
  using enum HostStep;
  if (!cpu.thread || step < kIrqBegin || step > kVectorEnd) return;
  const Kind kind = step <= kIrqEnd ? kHard : step <= kSoftirqEnd ? kSoft : kVector;
  if (step == kIrqBegin || step == kSoftirqBegin || step == kVectorBegin) {
    if (!is_in_interrupt(event.cpu)) cpu.woken.reset();
    if (knows_[kind]) cpu.began[kind] = event.at;
    return;
  }
  knows_[kind] = true;
  const auto began = std::exchange(cpu.began[kind], std::nullopt);
  if (!began || (kind != kSoft && cpu.began[kSoft])) return;
  if (Thread* thread = threads_.get(*cpu.thread, kMostThreads))
    thread->interrupts_ns += elapsed(*began, event.at);
  const auto woken = std::exchange(cpu.woken, std::nullopt);
  if (Thread* thread = woken ? threads_.get(*woken, kMostThreads) : nullptr) {
    ++thread->idle_wakes;
    thread->idle_ns += elapsed(*began, event.at);
  }
}

void HostRuns::on_handler(Cpu& cpu, const Event& event, const HostEvent& host) {
  if (host.step == HostStep::kIrqBegin) cpu.handler = event.at;
  if (host.step != HostStep::kIrqEnd) return;
  const Timestamp begin = std::exchange(cpu.handler, std::nullopt).value_or(event.at);
  if (elapsed(begin, event.at) > longest_.ns)
    longest_ = {elapsed(begin, event.at), begin, host.number};
}

// Follows a work item from the thread that queues it to the worker that ran it. A worker runs one
// item at a time, and sleeps in some.
void HostRuns::on_work(const Cpu& cpu, const Event& event, const HostEvent& work) {
  const bool in_thread = work.level == InterruptLevel::kNone && !is_in_interrupt(event.cpu);
  if (work.step == HostStep::kWorkQueued) {
    queued_.erase(work.address);
    knows_queues_ |= in_thread;
    if (in_thread && queued_.size() < kMostWorks) queued_.emplace(work.address, event.thread);
    return;
  }
  if (!in_thread) return;  // an item that a softirq runs
  Item* item = items_.get(event.thread, kMostThreads);
  const Thread* worker = threads_.find(event.thread);
  if (item == nullptr || worker == nullptr || cpu.thread != event.thread) return;
  const std::uint64_t ran = worker->ran_ns + elapsed(cpu.since, event.at);
  const Item before = std::exchange(*item, {});
  if (work.step == HostStep::kWorkBegin) {
    const auto queued = queued_.find(work.address);
    if (queued == queued_.end()) return;
    *item = {work.address, queued->second, ran};
    queued_.erase(queued);
    return;
  }
  knows_works_ = true;
  if (before.address != work.address) return;
  const std::pair key{event.thread, before.by};
  if (works_.size() == kMostWorks && !works_.contains(key)) return;
  Work& of = works_[key];
  of.ran_ns += ran - before.ran_ns;
  of.last = event.at;
  ++of.items;
}

void HostRuns::on_line(Cpu& cpu, const Event& event, const KvmIrq& irq) {
  // A line that an interrupt sets is not set by the thread that the interrupt stopped.
  if (irq.step != IrqStep::kLine || is_in_interrupt(event.cpu)) return;
  cpu.sets_line = cpu.thread == event.thread;
  Lines* lines = lines_.get(event.thread, kMostThreads);
  const std::uint64_t line = 2 * std::uint64_t{irq.pin} + (irq.level ? 1 : 0);
  if (lines != nullptr && (lines->size() < kMostLines || lines->contains(line))) ++(*lines)[line];
}

// Takes that the CPU switches to `next`, whose run on another CPU, if any, has ended unseen.
inline void HostRuns::switch_in(Cpu& cpu, const Event& event, ThreadId next) {
  cpu.thread = next;
  cpu.since = event.at;
  Thread* thread = threads_.get(next, kMostThreads);
  if (thread == nullptr) return;
  ++thread->turns;
  const std::uint32_t before = std::exchange(thread->cpu, event.cpu);
  if (before != event.cpu && cpus_[before].thread == next && next != kIdle) [[unlikely]]
    run(cpus_[before], event.at, false);
}

void HostRuns::take(const Event& event, ThreadChanges changes) {
  if (event.cpu >= kMostCpus) return;
  if (event.cpu >= cpus_.size()) cpus_.resize(event.cpu + 1);
  Cpu& cpu = cpus_[event.cpu];
  if (are_loss(changes)) {
    cpu.handler.reset();
    run(cpu, changes[0].since, true);
    // A loss may hide that an item ended and was queued again, by another thread.
    queued_.clear();
    items_.clear();
    std::erase_if(works_, [&](const auto& work) { return work.second.last > changes[0].since; });
    if (last_switch_) unknown_ns_ += elapsed(changes[0].since, changes[0].until);
    return;
  }
  const bool switches = !changes.empty() && changes[0].leaves();
  if (switches) last_switch_ = event.at;
  if (switches && !first_switch_) first_switch_ = event.at;
  const auto* host = std::get_if<HostEvent>(&event.payload);
  if (host != nullptr) on_handler(cpu, event, *host);
  if (!last_switch_) return;
  if (const auto* irq = std::get_if<KvmIrq>(&event.payload)) return on_line(cpu, event, *irq);
  if (host != nullptr)
    return host->step < HostStep::kWorkQueued ? on_interrupt(cpu, event, host->step)
                                              : on_work(cpu, event, *host);
  const ThreadId running = switches ? changes[0].thread : event.thread;
  if (cpu.thread && *cpu.thread != running) run(cpu, event.at, false);
  if (!cpu.thread) {
    cpu.thread = running;
    cpu.since = event.at;
    (void)threads_.get(running, kMostThreads);
  }
  cpu.last = event.at;
  if (!switches) return;
  run(cpu, event.at, true);
  switch_in(cpu, event, changes[0].other);
}

void HostRuns::end(ThreadId thread, Timestamp at) {
  std::erase_if(queued_, [thread](const auto& item) { return item.second == thread; });
  for (Cpu& cpu : cpus_)
    if (cpu.thread == thread) run(cpu, at, false);
}

void HostRuns::begin_at(Timestamp begin) {
  unknown_ns_ = ended_ = 0;
  longest_ = {};
  lines_ = {};
  works_.clear();
  for (auto& entry : items_.entries()) entry.state.ran_ns = 0;
  for (Entry& entry : threads_.entries()) entry.state = {.cpu = entry.state.cpu};
  for (Cpu& cpu : cpus_) {
    cpu.since = cpu.last = begin;
    for (auto& began : cpu.began)
      if (began) began = begin;
    if (cpu.handler) cpu.handler = begin;
  }
}

std::vector<HostRuns::Run> HostRuns::open(Timestamp end) const {
  const Timestamp known =
      goes_on_ || !last_switch_ ? end : Timestamp(last_switch_->ns() + kMostAfter);
  std::vector<Run> runs;
  for (const Cpu& cpu : cpus_) {
    if (!cpu.thread) continue;
    const Timestamp until = std::min(end, std::max(known, cpu.last));
    runs.push_back({*cpu.thread, cpu.since, std::max(cpu.since, until)});
  }
  return runs;
}

HostRuns::Works HostRuns::works(Timestamp end) const {
  Works works = works_;
  const std::vector<Run> runs = open(end);
  for (const auto& [worker, item] : items_.entries()) {
    const bool is_open = item.address != 0 && knows_works();
    const Thread* thread = is_open ? threads_.find(worker) : nullptr;
    if (thread == nullptr) continue;
    Work& of = works[{worker, item.by}];
    of.ran_ns += thread->ran_ns - item.ran_ns;
    for (const Run& run : runs)
      if (run.thread == worker) of.ran_ns += elapsed(run.begin, run.end);
    ++of.items;
  }
  return works;
}

bool HostRuns::covers(Timestamp begin, Timestamp end) const {
  return first_switch_ && elapsed(begin, std::max(begin, *first_switch_)) <= kMostAfter &&
         (goes_on_ || elapsed(std::min(end, *last_switch_), end) <= kMostAfter);
}

std::vector<HostRuns::Entry> HostRuns::threads(Timestamp end) const {
  std::vector<Entry> threads(threads_.entries().begin(), threads_.entries().end());
  for (const Run& run : open(end)) {
    const auto entry = std::ranges::find(threads, run.thread, &Entry::thread);
    if (entry != threads.end()) entry->state.ran_ns += elapsed(run.begin, run.end);
  }
  return threads;
}

}  // namespace trapline
