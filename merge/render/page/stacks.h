// The guest's own time by call stack. GuestStacks sums it by function; the page draws it as a flame
// graph.
//
//   kvm_entry, call, return, kvm_exit   the guest's time since the event before ──> the stack then
//   exit                                its parts ──> the stack that it interrupted
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/report/folded_stacks.h"
#include "merge/report/table.h"

namespace trapline::page {

class GuestTimes {
 public:
  static constexpr std::size_t kMostThreads = 1024, kMostRows = 400, kLongestText = 1000;

  void event(const Event& event, const Pipeline& pipeline);
  void exit(const ExitSpan& exit, const Pipeline& pipeline);

  // Returns the stacks with the most time first; if there are more than kMostRows, the last row is
  // "[other]". docs/formats/page.md.
  [[nodiscard]] Table table(const Pipeline& pipeline) const;

 private:
  struct Thread {
    StackId stack = kNoStack;
    bool in_guest = false;
    Timestamp mark;
  };
  void account(Thread& thread, Timestamp at);
  [[nodiscard]] GuestTime& times(StackId stack);

  mutable ThreadTable<Thread> threads_;
  std::vector<GuestTime> stacks_;  // by StackId
};

// The kernel's time in exits, for the page's flame graph.

inline constexpr std::size_t kMostKernelStacks = std::size_t{1} << 14, kMostKernelRows = 400,
                             kLongestKernelStack = 2000;

// Returns the stacks with the most time first; the rest is in the last row, "[other]".
// docs/formats/page.md.
[[nodiscard]] Table kernel_stack_table(const KernelStacks& stacks, const Naming& names);

}  // namespace trapline::page
