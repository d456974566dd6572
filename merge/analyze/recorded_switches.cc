#include "merge/analyze/recorded_switches.h"

#include <tuple>

#include "backend_ftrace/base/text.h"

namespace trapline {

void RecordedSwitches::note(ThreadId thread, bool surely, const Processes& processes) {
  if (thread == ThreadId{} || whole_.size() >= kMostThreads) return;
  const auto process = processes.selected();
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

// Two of the few threads of a recorder that leaves itself out have one in common, and none is idle.
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

void RecordedSwitches::on_run(const ThreadChange& change, const Processes& processes) {
  const auto [number, prev, next] = std::tuple(change.cpu, change.other, change.thread);
  skipped_.reset();
  if (number >= kMostCpus) return;
  if (number >= cpus_.size()) cpus_.resize(number + 1);
  Cpu& cpu = cpus_[number];
  ++cpu.switches;
  if (processes.selected()) selected_ = true;
  const auto& recorder = processes.recorder();
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

void RecordedSwitches::on_lost(std::uint32_t number) {
  skipped_.reset();
  if (number < cpus_.size()) cpus_[number].thread.reset();
}

}  // namespace trapline
