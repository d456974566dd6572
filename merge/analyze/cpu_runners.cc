#include "merge/analyze/cpu_runners.h"

#include <algorithm>

namespace trapline {
Culprit CpuRunners::culprit_of(const Run& run) {
  Culprit culprit;
  culprit.missing = run.missing;
  if (run.missing != Missing::kNone) return culprit;
  const bool idle = run.kind == CulpritKind::kThread && run.thread == ThreadId{};
  culprit.kind = idle ? CulpritKind::kIdle : run.kind;
  culprit.thread = run.thread;
  culprit.number = run.number;
  return culprit;
}

CpuRunners::Cpu* CpuRunners::cpu_of(std::uint32_t cpu) {
  if (cpu >= kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  return &cpus_[cpu];
}

void CpuRunners::add(Cpu& cpu, const Run& run) {
  if (cpu.runs.size() < kMost) {
    cpu.runs.push_back(run);
  } else {
    cpu.runs[cpu.added % kMost] = run;
  }
  ++cpu.added;
}

void CpuRunners::on_switch(Timestamp at, std::uint32_t cpu, ThreadId prev, ThreadId next) {
  Cpu* record = cpu_of(cpu);
  if (record == nullptr) return;
  // After a loss nothing is missing up to here: the thread that leaves has run since.
  const std::uint64_t oldest = record->added - record->runs.size();
  for (std::uint64_t i = record->added; i > oldest && record->thread.missing != Missing::kNone;
       --i) {
    Run& run = record->runs[(i - 1) % kMost];
    if (run.missing == Missing::kLost) break;
    if (run.missing == Missing::kSwitches) run = {run.begin, prev};
  }
  record->irq.reset();
  record->softirq.reset();
  record->thread = {at, next};
  add(*record, record->thread);
}

void CpuRunners::on_interrupt(Timestamp at, std::uint32_t cpu, CulpritKind kind, bool begins,
                              std::uint32_t number) {
  Cpu* record = cpu_of(cpu);
  if (record == nullptr) return;
  auto& open = kind == CulpritKind::kInterrupt ? record->irq : record->softirq;
  if (begins) {
    open = number;
  } else if (!open) {
    return;  // it began before the recording did
  } else {
    open.reset();
  }
  Run run = record->thread;
  if (record->irq) {
    run = {at, {}, Missing::kNone, CulpritKind::kInterrupt, *record->irq};
  } else if (record->softirq) {
    run = {at, {}, Missing::kNone, CulpritKind::kSoftirq, *record->softirq};
  }
  run.begin = at;
  add(*record, run);
}

void CpuRunners::on_lost(std::uint32_t cpu, Timestamp from, Timestamp to) {
  Cpu* record = cpu_of(cpu);
  if (record == nullptr) return;
  record->irq.reset();
  record->softirq.reset();
  record->thread = {to, {}, Missing::kSwitches};
  add(*record, {from, {}, Missing::kLost});
  add(*record, record->thread);
}

void CpuRunners::divide(std::uint32_t cpu, Timestamp begin, Timestamp end,
                        std::vector<WaitShare>& shares) const {
  static const Cpu kNone;
  const Cpu& record = cpu < cpus_.size() ? cpus_[cpu] : kNone;
  const std::uint64_t oldest = record.added - record.runs.size();
  std::uint64_t run = record.added;  // the first one after `begin`
  while (run > oldest && record.at(run - 1).begin > begin) --run;
  Timestamp at = begin;
  Culprit culprit = culprit_of({{}, {}, oldest == 0 ? Missing::kSwitches : Missing::kRoom});
  if (run > oldest) culprit = culprit_of(record.at(run - 1));
  for (; at < end; ++run) {
    const Timestamp until = run < record.added ? std::min(record.at(run).begin, end) : end;
    if (until > at) shares.push_back({Part::kPreempted, culprit, at, until});
    at = std::max(at, until);
    if (run < record.added) culprit = culprit_of(record.at(run));
  }
}

}  // namespace trapline
