#include "merge/analyze/host_runs.h"

#include <algorithm>

namespace trapline {

// Its thread's time up to then; nobody's where the thread is another one by then.
void HostRuns::run(Cpu& cpu, Timestamp end, bool known) {
  if (!cpu.thread) return;
  const Timestamp until = known ? end : cpu.last;
  if (!known) unknown_ns_ += elapsed(until, end);
  if (Thread* thread = threads_.get(*cpu.thread, kMostThreads))
    thread->ran_ns += elapsed(cpu.since, until);
  cpu.thread.reset();
  cpu.depth = 0;
}

// The time of the outermost of those that lie in each other.
void HostRuns::on_interrupt(Cpu& cpu, const Event& event, const HostEvent& host) {
  const bool begins = host.step == HostStep::kIrqBegin || host.step == HostStep::kSoftirqBegin;
  if (begins) {
    if (cpu.depth++ == 0) cpu.interrupted = event.at;
    return;
  }
  if (host.step != HostStep::kIrqEnd && host.step != HostStep::kSoftirqEnd) return;
  knows_interrupts_ = true;
  if (cpu.depth == 0 || --cpu.depth != 0) return;
  if (Thread* thread = threads_.get(*cpu.thread, kMostThreads))
    thread->interrupts_ns += elapsed(cpu.interrupted, event.at);
}

void HostRuns::on(const Event& event, ThreadChanges changes) {
  if (event.cpu >= kMostCpus) return;
  if (event.cpu >= cpus_.size()) cpus_.resize(event.cpu + 1);
  Cpu& cpu = cpus_[event.cpu];
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    run(cpu, lost->from, true);
    return;
  }
  const bool switches = !changes.empty() && changes[0].leaves();
  const ThreadId running = switches ? changes[0].thread : event.thread;
  if (cpu.thread && *cpu.thread != running) run(cpu, event.at, false);
  if (!cpu.thread) {
    cpu.thread = running;
    cpu.since = event.at;
    (void)threads_.get(running, kMostThreads);
  }
  cpu.last = event.at;
  if (const auto* host = std::get_if<HostEvent>(&event.payload)) on_interrupt(cpu, event, *host);
  if (!switches) return;
  run(cpu, event.at, true);
  cpu.thread = changes[0].other;
  cpu.since = event.at;
  if (Thread* thread = threads_.get(*cpu.thread, kMostThreads)) ++thread->turns;
}

std::vector<ThreadTable<HostRuns::Thread>::Entry> HostRuns::threads(Timestamp end) const {
  std::vector<ThreadTable<Thread>::Entry> threads(threads_.entries().begin(),
                                                  threads_.entries().end());
  for (const Cpu& cpu : cpus_) {
    if (!cpu.thread) continue;
    const auto open = std::ranges::find(threads, *cpu.thread, &ThreadTable<Thread>::Entry::thread);
    if (open != threads.end()) open->state.ran_ns += elapsed(cpu.since, end);
  }
  return threads;
}

}  // namespace trapline
