// The times in which no vCPU of a VM was in the guest.
#include <algorithm>
#include <utility>

#include "merge/analyze/pipeline.h"
#include "merge/analyze/stall_tracker.h"

namespace trapline {
namespace {

constexpr std::uint64_t kNearlyAll = 9, kOf = 10;

}  // namespace

StallTracker::Vm* StallTracker::vm_of(ThreadId id, const Pipeline& pipeline) {
  if (const auto found = vm_of_.find(id); found != vm_of_.end()) return found->second;
  const ThreadId process = pipeline.processes().of(id, ThreadId{});
  if (process == ThreadId{} || vm_of_.size() >= kMostThreads) return nullptr;
  Vm& vm = vms_[process];
  if (vm.vcpus.size() >= kMostVcpus) {
    vm.counts = false;  // nothing is said of it
    return nullptr;
  }
  vm.vcpus.push_back(id);
  ++vm.unknown;
  vm.counts = vm.counts && pipeline.counts(id);
  vm_of_[id] = &vm;
  return &vm;
}

// From now on it is known whether each vCPU is in the guest.
void StallTracker::know(Vm& vm, Thread& thread, Timestamp at) {
  if (std::exchange(thread.known, true)) return;
  held_.add(thread);
  --vm.unknown;
  vm.left = std::max(vm.left, at);
}

void StallTracker::on_entry(ThreadId id, Timestamp at, const Pipeline& pipeline) {
  Vm* vm = vm_of(id, pipeline);
  Thread* thread = thread_of(id);
  if (vm == nullptr || thread == nullptr || thread->in_guest) return;
  if (vm->in_guest == 0) add_gap(*vm, at, false);
  know(*vm, *thread, at);
  thread->in_guest = true;
  ++vm->in_guest;
}

void StallTracker::on_exit(ThreadId id, Timestamp at, const Pipeline& pipeline) {
  const bool is_new = !vm_of_.contains(id);
  Vm* vm = vm_of(id, pipeline);
  Thread* thread = thread_of(id);
  if (vm == nullptr || thread == nullptr) return;
  if (is_new) {  // it was in the guest all the time
    vm->gaps.clear();
    vm->stalls.clear();
  }
  know(*vm, *thread, at);
  if (!thread->in_guest) return;
  thread->in_guest = false;
  --vm->in_guest;
  vm->left = std::max(vm->left, at);
}

// Whether a vCPU is in the guest is not known until its next entry or exit.
void StallTracker::on_lost() {
  held_.end([this](Thread& thread) {
    thread.memory.forget_open();
    if (!std::exchange(thread.known, false)) return;
    Vm& vm = *vm_of_.find(thread.id)->second;
    ++vm.unknown;
    if (std::exchange(thread.in_guest, false)) --vm.in_guest;
  });
}

void StallTracker::add_gap(Vm& vm, Timestamp end, bool open) {
  if (vm.unknown != 0 || vm.in_guest != 0 || vm.vcpus.size() < 2) return;
  if (elapsed(vm.left, end) < at_least_ns_) return;
  if (vm.gaps.size() >= kMostGaps) vm.gaps.pop_front();
  vm.gaps.push_back({vm.left, end, open, {}});
}

void StallTracker::tell_gaps(const Thread& thread, const Piece& piece, bool page) {
  const auto found = vm_of_.find(thread.id);
  if (found == vm_of_.end()) return;
  for (Gap& gap : found->second->gaps) {
    const Piece cut{piece.state, std::max(piece.begin, gap.begin), std::min(piece.end, gap.end)};
    if (cut.end <= cut.begin) continue;
    Gap::Vcpu& vcpu = gap.vcpus[thread.id];
    if (piece.state == State::kHalted && !page) {
      vcpu.halted_ns += elapsed(cut.begin, cut.end);
      vcpu.shares.add({StallCause::kHalted, Culprit(), elapsed(cut.begin, cut.end)});
    } else if (piece.state <= State::kHalted || piece.state == State::kPaused) {
      vcpu.stopped_ns += elapsed(cut.begin, cut.end);
      divide(thread, cut, page, vcpu.shares);
    }
  }
}

// Those up to whose end each vCPU is known, or all.
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
  std::uint64_t most = 0;
  const Gap::Vcpu* longest = nullptr;
  for (const auto& [id, vcpu] : gap.vcpus) {
    stall.not_halted += vcpu.stopped_ns * kOf >= length * kNearlyAll ? 1 : 0;
    if (vcpu.stopped_ns <= most) continue;
    most = vcpu.stopped_ns;
    longest = &vcpu;
    stall.thread = id;
  }
  // What is not known of it whole is claimed of none.
  if (stall.not_halted < 2 || longest->shares.total() != length) return;
  stall.begin = gap.begin;
  stall.end = gap.end;
  stall.open = gap.open;
  stall.vcpus = static_cast<std::uint32_t>(vm.vcpus.size());
  stall.shares = longest->shares.largest_first();
  vm.stalls.push_back(std::move(stall));
  if (vm.stalls.size() < 2 * kMostOfVm) return;
  std::ranges::nth_element(vm.stalls, vm.stalls.begin() + kMostOfVm, std::ranges::greater(),
                           &Stall::length);
  vm.stalls.resize(kMostOfVm);
}

}  // namespace trapline
