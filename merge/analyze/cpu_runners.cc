#include "merge/analyze/cpu_runners.h"

#include <algorithm>
#include <span>
#include <utility>

namespace trapline {
ProvenCulprit CpuRunners::culprit_of(const Run& run, std::uint32_t cpu, const Wait& wait) const {
  if (run.missing != Missing::kNone) return ProvenCulprit(run.missing);
  const bool endless = (run.kind == CulpritKind::kInterrupt && !irq_ends_) ||
                       (run.kind == CulpritKind::kSoftirq && !softirq_ends_);
  if (endless) return ProvenCulprit(Missing::kContext);  // the interrupt may have ended long before
  const ProvenCulprit culprit({.kind = run.kind, .thread = run.thread, .number = run.number},
                              EventRef(run.begin, cpu));
  if (run.kind != CulpritKind::kThread || run.thread != ThreadId{}) return culprit;
  if (!unseen_.empty()) [[unlikely]]
    return ProvenCulprit(Missing::kCpu);
  return culprit.as(run.chosen >= wait.queued ? CulpritKind::kNotAllowed
                    : wait.woken && elapsed(wait.begin, wait.end) <= kLongestWakeUp
                        ? CulpritKind::kIdle
                        : CulpritKind::kIdleOther);
}

CpuRunners::Cpu* CpuRunners::cpu_of(std::uint32_t cpu) {
  if (cpu >= kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  if (!cpus_[cpu].seen) [[unlikely]] {
    cpus_[cpu].seen = true;
    std::erase(unseen_, cpu);
  }
  return &cpus_[cpu];
}

void CpuRunners::on_queued(std::uint32_t cpu) {
  const bool seen = cpu < cpus_.size() && cpus_[cpu].seen;
  if (!seen && cpu < kMostCpus && std::ranges::find(unseen_, cpu) == unseen_.end())
    unseen_.push_back(cpu);
}

void CpuRunners::add(Cpu& cpu, const Run& run) {
  cpu.runs.push_back(run);
  if (cpu.runs.size() > kMost) {
    cpu.runs.pop_front();
    cpu.dropped = true;
  }
  pieces_ += kPieces;
}

// Marks the runs since the CPU's last recorded switch as uncertain, because switches followed that
// were not recorded.
void CpuRunners::doubt_last(Cpu& cpu) {
  for (auto run = cpu.runs.rbegin(); run != cpu.runs.rend(); ++run) {
    if (run->begin < cpu.thread.chosen) break;
    if (run->kind == CulpritKind::kThread && run->missing == Missing::kNone)
      run->missing = Missing::kSelected;
  }
}

void CpuRunners::on_run(const ThreadChange& change, const RecordedSwitches& switches) {
  Cpu* record = cpu_of(change.cpu);
  if (record == nullptr) return;
  const auto missing = [&switches](ThreadId thread) {
    return thread == ThreadId{} || switches.has_all_of(thread) ? Missing::kNone
                                                               : Missing::kSelected;
  };
  if (switches.skipped()) doubt_last(*record);
  // After a loss, or before the CPU's first switch, it is not known which thread runs. This switch
  // names the thread that it takes off the CPU, so the unknown runs until now are that thread's.
  for (auto run = record->runs.rbegin(); run != record->runs.rend(); ++run) {
    if (record->thread.missing == Missing::kNone || run->missing == Missing::kLost) break;
    if (run->missing == Missing::kSwitches)
      *run = {.begin = run->begin, .thread = change.other, .missing = missing(change.other)};
  }
  record->irq.reset();
  record->softirq.reset();
  record->thread = {.begin = change.at,
                    .thread = change.thread,
                    .missing = missing(change.thread),
                    .chosen = change.at};
  add(*record, record->thread);
}

void CpuRunners::on_interrupt(const Event& event, const HostEvent& host) {
  using enum HostStep;
  Cpu* record = host.step < kIrqBegin || host.step > kSoftirqEnd ? nullptr : cpu_of(event.cpu);
  if (record == nullptr) return;
  auto& open = host.step <= kIrqEnd ? record->irq : record->softirq;
  if (host.step == kIrqBegin || host.step == kSoftirqBegin) {
    open = static_cast<std::uint32_t>(host.number);
  } else {
    (host.step == kIrqEnd ? irq_ends_ : softirq_ends_) = true;
    if (!open) return;  // nothing since the last loss shows when the interrupt began
    open.reset();
  }
  Run run = record->thread;
  if (record->irq) {
    run = {.kind = CulpritKind::kInterrupt, .number = *record->irq};
  } else if (record->softirq) {
    run = {.kind = CulpritKind::kSoftirq, .number = *record->softirq};
  }
  run.begin = event.at;
  add(*record, run);
}

void CpuRunners::on_lost(const ThreadChange& loss) {
  Cpu* record = cpu_of(loss.cpu);
  if (record == nullptr) return;
  record->irq.reset();
  record->softirq.reset();
  record->thread = {.begin = loss.until, .missing = Missing::kSwitches};
  add(*record, {.begin = loss.since, .missing = Missing::kLost});
  add(*record, record->thread);
}

namespace {

// Returns the range from the first kNotAllowed piece to the last; `first` is the end if none is.
auto not_allowed_of(std::span<WaitShare> pieces) {
  const auto not_allowed = [](const WaitShare& piece) {
    return piece.culprit->kind == CulpritKind::kNotAllowed;
  };
  return std::pair(std::find_if(pieces.begin(), pieces.end(), not_allowed),
                   std::find_if(pieces.rbegin(), pieces.rend(), not_allowed).base());
}

// In one wait for a CPU, also counts the pieces between two kNotAllowed ones as kNotAllowed:
// whichever thread ran then, the waiting one was not allowed to.
void join_not_allowed(std::span<WaitShare> pieces) {
  const auto [first, last] = not_allowed_of(pieces);
  for (auto piece = first; piece < last; ++piece) {
    if (piece->culprit->missing != Missing::kNone) return;  // the thread may have run unseen
  }
  for (auto piece = first; piece < last; ++piece) piece->culprit = first->culprit;
}

}  // namespace

void CpuRunners::divide(std::uint32_t cpu, const Wait& wait, std::vector<WaitShare>& shares) {
  const auto [begin, end] = std::pair(wait.begin, wait.end);
  const std::size_t before = shares.size();
  static const Cpu kNone;
  const Cpu& record = cpu < cpus_.size() ? cpus_[cpu] : kNone;
  const std::size_t size = record.runs.size();
  const std::size_t oldest = size - std::min<std::uint64_t>(size, pieces_);
  std::size_t run = size;  // the first run after `begin`
  while (run > oldest && record.runs[run - 1].begin > begin) --run;
  pieces_ -= size - run;
  Timestamp at = begin;
  ProvenCulprit culprit(oldest == 0 && !record.dropped ? Missing::kSwitches : Missing::kRoom);
  if (run > oldest) culprit = culprit_of(record.runs[run - 1], cpu, wait);
  for (; at < end; ++run) {
    const Timestamp until = run < size ? std::min(record.runs[run].begin, end) : end;
    if (until > at) shares.push_back({Part::kPreempted, culprit, at, until});
    at = std::max(at, until);
    if (run < size) culprit = culprit_of(record.runs[run], cpu, wait);
  }
  const auto pieces = std::span(shares).subspan(before);
  if (knows_moves_) return join_not_allowed(pieces);
  const auto [first, last] = not_allowed_of(pieces);
  if (first >= last) return;
  // The thread waited for another CPU, or was not allowed to run.
  shares.resize(before);
  shares.push_back({Part::kPreempted, ProvenCulprit(Missing::kMigrations), begin, end});
}

}  // namespace trapline
