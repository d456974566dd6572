// --kernel-samples: what the kernel's time in exits went to, by reason, as perf's samples estimate
// it. The kernel's time in the exits of a reason is known; each function has, of that of the
// threads that were sampled, the share of the samples that were taken in it. Of a timer, whose
// interrupts wait while they are off, each sample stands for its period and no more: the time that
// then has no sample is "not sampled".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "merge/analyze/kernel_samples.h"
#include "merge/pass/naming.h"
#include "merge/report/kernel_sample_report.h"

namespace trapline {

class KernelSampleTable {
 public:
  static constexpr std::size_t kMostReasons = 1u << 14;  // of threads
  static constexpr std::size_t kMostStacks = 1u << 16;  // of reasons; further samples have no stack

  void add(const ExitSpan& exit, const KernelSamples& samples);
  // Both need the tracker that it was fed from: Naming::pipeline's.
  [[nodiscard]] KernelSampleReport report(const Naming& names, std::size_t top) const;
  // "io;entry_SYSCALL_64_after_hwframe;…;svm_vcpu_run", with its estimate in ns; they sum to the
  // exits' kernel part.
  void each_stack(const Naming& names,
                  const std::function<void(const std::string&, std::uint64_t)>& take) const;

 private:
  struct Reason {
    std::uint64_t ns = 0, not_sampled_ns = 0;
    std::uint64_t unseen_ns = 0;  // of `ns`, that a timer's samples do not stand for: by_name()
    // Of exits since the thread's last sample, which had come `before` this: until one comes again
    // nothing tells that it was still sampled.
    std::uint64_t pending_ns = 0, before = 0;
    SampleSum all;
    std::map<KernelStackId, SampleSum> stacks;
  };
  static void settle(Reason& reason, std::uint64_t count);
  // By name: two numbers of reasons may have one.
  [[nodiscard]] std::map<std::string, Reason> by_name(const Naming& names) const;

  using Key = std::tuple<std::uint16_t, ExitReason, ThreadId>;
  std::map<Key, Reason> reasons_;
  Reason other_;
  std::size_t stacks_ = 0;
};

}  // namespace trapline
