#include "merge/analyze/kernel_samples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend_ftrace/base/bytes.h"

namespace trapline {
namespace {

// PERF_CONTEXT_*: what comes after such a mark is of user space, of a guest, …
constexpr std::uint64_t kFirstMark = ~std::uint64_t{4094};
constexpr std::uint64_t kKernelMark = ~std::uint64_t{127};

}  // namespace

NameId KernelSamples::name_of(std::uint64_t address) {
  if (const auto known = by_address_.find(address); known != by_address_.end())
    return known->second;
  if (by_address_.size() >= kMostAddresses) return Names::kOther;
  const std::string name = symbol_ ? symbol_(address) : std::string();
  return by_address_[address] = names_.id(name.empty() ? "[unknown]" : name);
}

// A caller's address is where its callee returns to, which may be another function's begin.
KernelStackId KernelSamples::stack_of(const KernelSample& sample) {
  std::array<std::uint64_t, kMostFrames> addresses{sample.address};
  std::size_t frames = 0;
  for (std::size_t at = 0; at + 8 <= sample.chain.size() && frames < kMostFrames; at += 8) {
    const auto address = load<std::uint64_t>(sample.chain.data() + at);
    if (address >= kFirstMark && address != kKernelMark) break;
    if (address != kKernelMark) addresses[frames++] = address;
  }
  frames = std::max<std::size_t>(frames, 1);
  KernelStackId stack = 0;
  for (std::size_t i = frames; i-- > 0;) {
    const NameId name = name_of(addresses[i] - (i != 0));
    stack = frames_.number({stack, name, KernelWork::kFunction}, stack);
  }
  return stack;
}

void KernelSamples::on(const Event& event, const KernelSample& sample, bool is_vcpu) {
  by_timer_ |= sample.by_timer;
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) {
    ++dropped_;
    return;
  }
  if (thread->count++ == 0) thread->first = event.at;
  thread->is_vcpu |= is_vcpu;
  if (sample.mode == KernelSample::Mode::kGuest) {
    ++thread->guest;
  } else if (sample.mode == KernelSample::Mode::kOther) {
    ++thread->outside;
  } else if (thread->waiting.size() < (thread->is_vcpu ? kMostWaiting : kMostOfOthers)) {
    thread->waiting.push_back({event.at, stack_of(sample), sample.period});
  } else if (thread->is_vcpu) {
    thread->no_room = true;
    ++no_room_;
  } else {
    ++thread->outside;
  }
}

void KernelSamples::on_before(ThreadId id, Timestamp at) {
  Thread* thread = threads_.get(id, kMostThreads);
  if (thread != nullptr && thread->count++ == 0) thread->first = at;
}

void KernelSamples::take(const Taken& taken) {
  const auto [place, is_new] = share_of_.try_emplace(taken.stack, shares_.size());
  if (is_new) shares_.push_back({taken.stack, {}});
  const auto weight = static_cast<double>(taken.period);
  shares_[place->second].sum += {1, weight, weight * weight};
}

void KernelSamples::on_exit(const ExitSpan& exit) {
  shares_.clear();
  share_of_.clear();
  covered_ = false;
  Thread* thread = threads_.find(exit.thread);
  if (thread == nullptr) return;  // no sample of it came
  thread->is_vcpu = true;
  covered_ = !std::exchange(thread->no_room, false) && thread->first <= exit.start;
  auto interval = exit.intervals.begin();
  auto taken = thread->waiting.begin();
  for (; taken != thread->waiting.end() && taken->at < exit.end; ++taken) {
    while (interval != exit.intervals.end() && interval->end <= taken->at) ++interval;
    if (taken->at < exit.start) {
      ++thread->outside;
    } else if (interval != exit.intervals.end() && interval->begin <= taken->at &&
               interval->part == Part::kKernel) {
      take(*taken);
      ++kernel_;
    } else {
      ++elsewhere_;
    }
  }
  thread->waiting.erase(thread->waiting.begin(), taken);
}

std::uint64_t KernelSamples::count(ThreadId id) const {
  const Thread* thread = threads_.find(id);
  return thread == nullptr ? 0 : thread->count;
}

SampleCounters KernelSamples::counters() const {
  SampleCounters counters{kernel_, elsewhere_, 0, 0, dropped_, no_room_};
  for (const auto& [id, thread] : threads_.entries()) {
    const std::uint64_t outside = thread.outside + thread.waiting.size();
    if (thread.is_vcpu) {
      counters.outside += outside;
      counters.guest += thread.guest;
    } else {
      counters.others += outside + thread.guest;
    }
  }
  return counters;
}

}  // namespace trapline
