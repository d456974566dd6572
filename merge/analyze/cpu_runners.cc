#include "merge/analyze/cpu_runners.h"

#include <algorithm>

namespace trapline {
namespace {

Culprit culprit_of(ThreadId thread, Missing missing) {
  Culprit culprit;
  culprit.missing = missing;
  if (missing != Missing::kNone) return culprit;
  culprit.kind = thread == ThreadId{} ? CulpritKind::kIdle : CulpritKind::kThread;
  culprit.thread = thread;
  return culprit;
}

}  // namespace

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
  if (record->added != 0) {
    // After a loss nothing is missing up to here: the thread that leaves has run since.
    Run& last = record->runs[(record->added - 1) % kMost];
    if (last.missing == Missing::kSwitches) last = {last.begin, prev, Missing::kNone};
  }
  add(*record, {at, next, Missing::kNone});
}

void CpuRunners::on_lost(std::uint32_t cpu, Timestamp from, Timestamp to) {
  Cpu* record = cpu_of(cpu);
  if (record == nullptr) return;
  add(*record, {from, {}, Missing::kLost});
  add(*record, {to, {}, Missing::kSwitches});
}

void CpuRunners::divide(std::uint32_t cpu, Timestamp begin, Timestamp end,
                        std::vector<WaitShare>& shares) const {
  static const Cpu kNone;
  const Cpu& record = cpu < cpus_.size() ? cpus_[cpu] : kNone;
  const std::uint64_t oldest = record.added - record.runs.size();
  std::uint64_t run = record.added;  // the first one after `begin`
  while (run > oldest && record.at(run - 1).begin > begin) --run;
  Timestamp at = begin;
  Culprit culprit = culprit_of({}, oldest == 0 ? Missing::kSwitches : Missing::kRoom);
  if (run > oldest) culprit = culprit_of(record.at(run - 1).thread, record.at(run - 1).missing);
  for (; at < end; ++run) {
    const Timestamp until = run < record.added ? std::min(record.at(run).begin, end) : end;
    if (until > at) shares.push_back({Part::kPreempted, culprit, at, until});
    at = std::max(at, until);
    if (run < record.added) culprit = culprit_of(record.at(run).thread, record.at(run).missing);
  }
}

}  // namespace trapline
